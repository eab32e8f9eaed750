//! Installs programs of the bundle: plain files as they are, from archives the members that the catalogue names.

use std::collections::BTreeMap;

use kubexm_manifests::{Component, NodeRole, Payload};
use kubexm_plan::op::{AllInto, Binary, Op, Unpacked};
use kubexm_spec::Program;
use kubexm_spec::cluster::EtcdKind;

use crate::context::{PlanContext, PlannedHost};
use crate::error::RecipeError;

fn component<'a>(cx: &PlanContext<'a>, program: Program) -> Result<&'a Component, RecipeError> {
    let missing = || RecipeError::NotInBundle { missing: vec![format!("catalogue entry {}", program.name())] };
    cx.catalogue.component(program).ok_or_else(missing)
}

/// Whether a node gets a program: by its role, and an optional tool only if cluster.yaml does not exclude it.
pub fn wanted(cx: &PlanContext<'_>, node: &PlannedHost<'_>, program: Program) -> Result<bool, RecipeError> {
    // What was excluded when the bundle was built is not even in the bundle's catalogue.
    let left_out = cx.cluster.bundle.exclude.iter().any(|name| name == program.name());
    if left_out && cx.catalogue.component(program).is_none_or(|component| component.optional) {
        return Ok(false);
    }
    // Of an etcd of kubexm's the members have the tools with the program itself.
    if program == Program::Etcd && cx.cluster.etcd.kind == EtcdKind::Kubexm && node.roles.etcd {
        return Ok(false);
    }
    Ok(match component(cx, program)?.role {
        NodeRole::All => true,
        NodeRole::ControlPlane => node.roles.control_plane,
        NodeRole::Worker => node.roles.worker,
        NodeRole::Etcd => node.roles.etcd,
        NodeRole::Registry => node.roles.registry,
    })
}

/// The op that installs etcd itself with its tools: upstream's archive has them in one folder.
pub fn etcd(cx: &PlanContext<'_>, node: &PlannedHost<'_>, directory: &str) -> Result<Op, RecipeError> {
    let mut op = install(cx, node, Program::Etcd, directory)?;
    if let Op::Unpacked(archive) = &mut op {
        let server = archive.members.keys().find_map(|member| Some(format!("{}etcd", member.strip_suffix("etcdctl")?)));
        archive.members.extend(server.map(|member| (member, format!("{directory}/etcd"))));
    }
    Ok(op)
}

/// The op that installs a program (or all programs of its archive) into a directory.
pub fn install(
    cx: &PlanContext<'_>,
    node: &PlannedHost<'_>,
    program: Program,
    directory: &str,
) -> Result<Op, RecipeError> {
    let artifact = cx.program(program, node.platform)?;
    let archive = match component(cx, program)?.payload(&artifact.version, node.platform.arch) {
        Payload::Raw(_) => {
            let path = format!("{directory}/{}", program.name());
            return Ok(Binary { path, blob: artifact.digest, mode: 0o755 }.into());
        }
        Payload::Archive(archive) => archive,
    };
    let members: BTreeMap<String, String> =
        archive.members.into_iter().map(|(member, name)| (member, format!("{directory}/{name}"))).collect();
    let all_into = archive.all.map(|folder| AllInto { folder, directory: directory.to_owned() });
    Ok(Unpacked { blob: artifact.digest, members, all_into }.into())
}
