//! Names and paths that both programs must agree on. What one side alone uses lives on that side.

/// The builder's program name.
pub const BUILDER: &str = "kubexm-bundle";
/// The installer's program name, on the controller and as the agent on nodes.
pub const INSTALLER: &str = "kubexm-install";
/// `apiVersion` of cluster.yaml.
pub const CLUSTER_API_VERSION: &str = "kubexm.io/v1alpha1";
/// Annotation of an index entry that carries the full upstream name (OCI image-spec, annotations.md).
pub const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// Environment variable that names the zone.
pub const ZONE_ENV: &str = "KMZONE";
/// The older name of [`ZONE_ENV`], read with a warning.
pub const OLD_ZONE_ENV: &str = "KKZONE";
/// Environment variable for the controller's folder.
pub const HOME_ENV: &str = "KUBEXM_HOME";
/// The controller's folder under the user's home, when [`HOME_ENV`] is not set.
pub const HOME_DIR: &str = ".kubexm";

/// TCP port of the depot: of its images with the embedded registry unless cluster.yaml says otherwise, and of its blobs
/// and files beside every other registry.
pub const DEPOT_PORT: u16 = 5443;

/// The DNS name of the cluster's registry.
pub fn registry_name(cluster: &str) -> String {
    format!("registry.{cluster}.kubexm.internal")
}

/// The DNS name of the control plane.
pub fn control_plane_name(cluster: &str) -> String {
    format!("lb.{cluster}.kubexm.internal")
}
