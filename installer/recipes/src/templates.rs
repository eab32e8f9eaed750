//! Text files whose format has no serialiser here: units, TOML, the Corefile. YAML and JSON are written from values.

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, UndefinedBehavior, Value};

use crate::error::RecipeError;

const TEMPLATES: &[(&str, &str)] = &[
    ("Corefile", include_str!("../templates/Corefile.j2")),
    ("audit-policy.yaml", include_str!("../templates/audit-policy.yaml.j2")),
    ("balancer-check", include_str!("../templates/balancer-check.sh.j2")),
    ("balancer-haproxy.cfg", include_str!("../templates/balancer-haproxy.cfg.j2")),
    ("balancer-nginx.conf", include_str!("../templates/balancer-nginx.conf.j2")),
    ("chrony.conf", include_str!("../templates/chrony.conf.j2")),
    ("cri-o.conf", include_str!("../templates/cri-o.conf.j2")),
    ("cri-o-policy.json", include_str!("../templates/cri-o-policy.json.j2")),
    ("cri-o-registries.conf", include_str!("../templates/cri-o-registries.conf.j2")),
    ("crio.service", include_str!("../templates/crio.service.j2")),
    ("containerd.service", include_str!("../templates/containerd.service.j2")),
    ("containerd-1.toml", include_str!("../templates/containerd-1.toml.j2")),
    ("containerd.toml", include_str!("../templates/containerd.toml.j2")),
    ("crictl.yaml", include_str!("../templates/crictl.yaml.j2")),
    ("haproxy.cfg", include_str!("../templates/haproxy.cfg.j2")),
    ("harbor-engine", include_str!("../templates/harbor-engine.sh.j2")),
    ("harbor-start", include_str!("../templates/harbor-start.sh.j2")),
    ("harbor-stopped", include_str!("../templates/harbor-stopped.sh.j2")),
    ("harbor-stop", include_str!("../templates/harbor-stop.sh.j2")),
    ("hosts-insecure.toml", include_str!("../templates/hosts-insecure.toml.j2")),
    ("hosts-none.toml", include_str!("../templates/hosts-none.toml.j2")),
    ("hosts-unknown.toml", include_str!("../templates/hosts-unknown.toml.j2")),
    ("hosts.toml", include_str!("../templates/hosts.toml.j2")),
    ("keepalived.conf", include_str!("../templates/keepalived.conf.j2")),
    ("kubelet-kubeadm.conf", include_str!("../templates/kubelet-kubeadm.conf.j2")),
    ("kubelet.service", include_str!("../templates/kubelet.service.j2")),
    ("kubexm-depot.service", include_str!("../templates/kubexm-depot.service.j2")),
    ("kubexm-etcd.service", include_str!("../templates/kubexm-etcd.service.j2")),
    ("kubexm-haproxy.service", include_str!("../templates/kubexm-haproxy.service.j2")),
    ("kubexm-harbor-engine.service", include_str!("../templates/kubexm-harbor-engine.service.j2")),
    ("kubexm-harbor.service", include_str!("../templates/kubexm-harbor.service.j2")),
    ("kubexm-keepalived.service", include_str!("../templates/kubexm-keepalived.service.j2")),
    ("kubexm-nginx-check", include_str!("../templates/kubexm-nginx-check.sh.j2")),
    ("kubexm-nginx-check.service", include_str!("../templates/kubexm-nginx-check.service.j2")),
    ("kubexm-nginx.service", include_str!("../templates/kubexm-nginx.service.j2")),
    ("kubexm-registry.service", include_str!("../templates/kubexm-registry.service.j2")),
    ("kubexm-service-route.service", include_str!("../templates/kubexm-service-route.service.j2")),
    ("nginx.conf", include_str!("../templates/nginx.conf.j2")),
    ("registry.yml", include_str!("../templates/registry.yml.j2")),
    ("resolv.conf", include_str!("../templates/resolv.conf.j2")),
];

/// Renders a template; a missing value is an error.
pub fn render(name: &'static str, values: Value) -> Result<String, RecipeError> {
    let fault = |source| RecipeError::Template { name, source };
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder().keep_trailing_newline(true).trim_blocks(true).build().map_err(fault)?;
    environment.set_syntax(syntax);
    for (known, text) in TEMPLATES {
        environment.add_template(known, text).map_err(fault)?;
    }
    let template = environment.get_template(name).map_err(fault)?;
    template.render(values).map_err(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_that_lacks_a_value_is_an_error_and_no_hole_in_a_file() {
        assert!(matches!(
            render("hosts.toml", minijinja::context! {}),
            Err(RecipeError::Template { name: "hosts.toml", .. })
        ));
    }
}
