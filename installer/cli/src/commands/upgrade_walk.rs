//! `kubexm-install upgrade --then`: several versions, one after the other, each from a bundle of its own.

use std::path::PathBuf;

use kubexm_plan::cluster_facts::Component;
use kubexm_session::{Access, ClusterSource, Opened, Recipe, Session, UpgradeOptions};
use kubexm_spec::event::EventKind;
use kubexm_spec::{ArtifactKey, ExitCode, KubernetesVersion, Program, depot};
use kubexm_terminal::{Display, Failure};

use super::args::{AsideArgs, BundleArgs, CaArgs, ChangeArgs};
use super::change;
use crate::render::ended;
use crate::terminal::Shell;

/// One upgrade of several.
struct Leg {
    bundle: BundleArgs,
    to: KubernetesVersion,
}

/// Everything that can be known to be wrong is said before the first upgrade begins.
pub fn run(args: &ChangeArgs, then: &[PathBuf], options: &UpgradeOptions, display: &Display) -> Result<(), Failure> {
    let shell = Shell::changing(display, args.yes)?;
    let session = shell.session();
    shell.check_can_confirm()?;
    let (legs, last) = verified(&session, args, then)?;
    let running = running(&shell, args, last)?;
    let is_passed = |leg: &Leg| running.as_ref().is_some_and(|running| leg.to < *running);
    // The last one is never passed over: that the cluster is beyond it is refused, and not taken for done.
    let passed = legs.iter().take(legs.len().saturating_sub(1)).take_while(|leg| is_passed(leg)).count();
    let (passed, left) = legs.split_at(passed);
    let note = |text: String| display.emit(EventKind::Note { text });
    if let Some(running) = running.filter(|_| !passed.is_empty()) {
        note(format!("the cluster has {running}: passed over are {}", versions(passed)));
    }
    note(format!("one after the other: {}", versions(left)));
    for (at, leg) in left.iter().enumerate() {
        let rest = &left[at + 1..];
        let args = ChangeArgs { bundle: leg.bundle.clone(), ..args.clone() };
        // Add-ons and packages are those of the last one.
        let options = match rest.is_empty() {
            true => *options,
            false => UpgradeOptions { keep_addons: true, os_packages: false, ..*options },
        };
        let recipe = Recipe::Upgrade(&options);
        let ended = change::run("upgrade", &args, AsideArgs::default(), CaArgs::default(), recipe, display);
        if rest.is_empty() {
            return ended::report(&ended?, "", display);
        }
        let next = format!("the same command again goes on with {}", versions(rest));
        let ended = ended.inspect_err(|_| note(format!("once the cluster has {}, {next}", leg.to)))?;
        if !ended::is_done(&ended) {
            note(format!("once this upgrade has ended well (`kubexm-install resume`), {next}"));
            return ended::report(&ended, "", display);
        }
        note(format!("the cluster has {}; next is {}", leg.to, versions(&rest[..1])));
    }
    Ok(())
}

/// Every bundle in the order of the versions, and the last one, opened. All are compared with each other before the first is read whole.
fn verified(session: &Session<'_>, args: &ChangeArgs, then: &[PathBuf]) -> Result<(Vec<Leg>, Opened), Failure> {
    let then = then.iter().map(|path| BundleArgs { bundle: vec![path.clone()], ..args.bundle.clone() });
    let (mut legs, mut all): (Vec<Leg>, Vec<Opened>) = (Vec::new(), Vec::new());
    let mut before = args.bundle.bases.clone();
    for mut bundle in std::iter::once(args.bundle.clone()).chain(then) {
        // What is no delta needs none of them, and would have them read.
        if session.is_delta(&bundle.options())? {
            bundle.bases.clone_from(&before);
        }
        before.extend(bundle.bundle.clone());
        let opened = session.open(&bundle.options())?;
        opened.check_closed_world()?;
        let to = version(&opened)?;
        if let (Some(earlier), Some(leg)) = (all.last(), legs.last()) {
            in_order((earlier, &leg.to), (&opened, &to))?;
            opened.check_after(earlier)?;
        }
        legs.push(Leg { bundle, to });
        all.push(opened);
    }
    // Not of the others: those that the cluster is beyond are rightly older than what is installed.
    all.last().map_or(Ok(()), |last| last.check_remembered(session))?;
    let mut last = None;
    for opened in all {
        last = Some(opened.verify(session)?.into_opened());
    }
    let last = last.ok_or_else(|| Failure::new(ExitCode::Usage, "no bundle was given"))?;
    Ok((legs, last))
}

fn version(opened: &Opened) -> Result<KubernetesVersion, Failure> {
    let kubeadm = ArtifactKey::Binary(Program::Kubeadm);
    let version = opened.bundle().manifest().artifacts.iter().find(|artifact| artifact.key == kubeadm);
    let version = version.and_then(|artifact| format!("v{}", artifact.version).parse().ok());
    let path = opened.bundle().path().display();
    version.ok_or_else(|| {
        Failure::new(ExitCode::BundleIncomplete, format!("{path} has no kubeadm: it is no bundle of a cluster"))
    })
}

/// Of one cluster, and each with the next version.
fn in_order(
    (one, from): (&Opened, &KubernetesVersion),
    (other, to): (&Opened, &KubernetesVersion),
) -> Result<(), Failure> {
    let (name, path) = (&one.cluster().name, other.bundle().path().display());
    if other.cluster().name != *name {
        let text = format!(
            "{path} is for cluster {}, and the one before it for {name}; nothing was changed",
            other.cluster().name
        );
        return Err(Failure::new(ExitCode::Config, text));
    }
    let problem = if to <= from {
        "which is no later version: give the bundles in the order of their versions".to_owned()
    } else if to.minor() > from.minor().saturating_add(1) {
        format!(
            "and minor versions cannot be skipped: a bundle of v1.{} comes in between",
            from.minor().saturating_add(1)
        )
    } else {
        return Ok(());
    };
    Err(Failure::new(ExitCode::Config, format!("{path} has {to} after {from}, {problem}; nothing was changed")))
}

/// The oldest API server, where any answers: what it is beyond is done. Where none does, the upgrade itself says so.
fn running(shell: &Shell<'_>, args: &ChangeArgs, last: Opened) -> Result<Option<KubernetesVersion>, Failure> {
    let (session, hosts) = (shell.session(), args.hosts.options()?);
    let source = ClusterSource::Bundle(Box::new(last));
    let access = Access::obtain(&session, source.cluster(), &args.bundle.trust.options(), &hosts)?;
    let facts = shell.wait(session.view(&source, &access, &hosts))?.facts;
    let planes = &source.cluster().role_groups.control_plane;
    let is_server = |one: &&Component| one.name == "kube-apiserver" && planes.contains(&one.node);
    let servers = facts.components.iter().filter(is_server);
    let tags = servers.filter_map(|server| depot::split_reference(&server.image).1);
    Ok(tags.chain(facts.server_version.as_deref()).filter_map(|version| version.parse().ok()).min())
}

fn versions(legs: &[Leg]) -> String {
    legs.iter().map(|leg| leg.to.to_string()).collect::<Vec<_>>().join(", ")
}
