//! `kubexm-install seed`.

use std::path::PathBuf;

use kubexm_engine::EventSink;
use kubexm_files::{Access, Kind, NoOption, head};
use kubexm_seed::{
    Choice, Connection, Kinds, MapForm, Naming, RecordFolder, SeedError, SeedOptions, SeedReport, Spool, State, Target,
    Watch, map_text,
};
use kubexm_session::{TrustOptions, escaped};
use kubexm_spec::cluster::SecretSource;
use kubexm_spec::event::EventKind;
use kubexm_spec::{ExitCode, Platform, counted};
use kubexm_terminal::{Display, Failure, bytes};
use tokio_util::sync::CancellationToken;

use crate::terminal::{Shown, home, interrupt, logins, start};

/// Put the images, charts and files of a bundle into a registry that you have, without any cluster
///
/// Images are called REGISTRY[/PREFIX]/UPSTREAM-HOST/PATH, charts REGISTRY[/PREFIX]/kubexm/charts/NAME (helm pull), files
/// REGISTRY[/PREFIX]/kubexm/files:NAME (oras pull). Signatures and attestations go along. What the registry has is not
/// sent; a seed that was stopped is run again and continues. No tag that names something else is moved without
/// --overwrite-tags, and none is found out about after the first upload. At the end every reference is compared.
///
/// Where the bundle lacks platforms of an image, registries that check an index refuse it: the tag then names the manifest
/// of the one platform that the bundle has, or an index of those that it has. That is said before anything is sent.
///
/// Logins: --username with --password-from, or --auth-file, else those of docker and podman. Never those of a bundle.
///
/// Examples:
///   kubexm-install seed --bundle site.tar.zst --to registry.example.com:8443/mirror --dry-run
///   kubexm-install seed --bundle site.tar.zst --to registry.example.com --map-out map.yaml
///   kubexm-install seed --bundle site.tar.zst --to harbor.example.com --only images --ca-file ca.crt \
///     --username robot --password-from file:/etc/robot.password
///   kubexm-install seed --bundle delta.tar.zst --base january.tar.zst --to registry.example.com
///   ssh media cat site.tar.zst | kubexm-install seed --bundle - --to registry.example.com --spool /data
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The bundle: its file, a folder with it, its volumes (one of them if they are in one folder), its address on a
    /// web server, or - for standard input
    #[arg(long, value_name = "FILE", required = true)]
    bundle: Vec<PathBuf>,
    /// For a delta: a bundle that has what it leaves out, or the registry itself (the same text as --to); may be given
    /// several times
    #[arg(long = "base", value_name = "FILE")]
    bases: Vec<PathBuf>,
    /// The registry, and the folder of it that everything goes into
    #[arg(long, value_name = "HOST[:PORT][/PREFIX]")]
    to: Target,
    /// Only these kinds; may be given several times
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KIND")]
    only: Vec<Only>,
    /// Only this platform (linux/amd64, linux/arm64); may be given several times [default: all of the bundle]
    #[arg(long, value_name = "PLATFORM")]
    platform: Vec<Platform>,
    /// One folder for all images, in place of one for each upstream host; '' for none [default: cluster.yaml of a signed bundle]
    #[arg(long, value_name = "FOLDER")]
    namespace_override: Option<String>,
    /// Move tags that name something else
    #[arg(long)]
    overwrite_tags: bool,
    /// Push indexes as upstream has them, though platforms of them are missing; most registries refuse that
    #[arg(long)]
    sparse_indexes: bool,
    #[command(flatten)]
    login: LoginArgs,
    #[command(flatten)]
    trust: TrustArgs,
    /// How many blobs are sent at once; each holds about 16 MiB of memory
    #[arg(short = 'j', long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=32))]
    jobs: u16,
    /// Write which name became which; forms: map (YAML, the default), mirror-set (OpenShift), registries.conf, hosts.toml;
    /// may be given several times
    #[arg(long, value_name = "[FORM=]FILE", value_parser = map_out)]
    map_out: Vec<MapOut>,
    /// Replace existing files of --map-out that are not maps
    #[arg(long, requires = "map_out")]
    force: bool,
    /// Where a bundle from a pipe (--bundle -) is kept until the end, in a file without a name [default: $KUBEXM_HOME/seeded]
    #[arg(long, value_name = "FOLDER")]
    spool: Option<PathBuf>,
    /// Ask the registry what it has and whether you may push the rest, and send nothing
    #[arg(long)]
    dry_run: bool,
    /// One JSON event a line; the last one has the result
    #[arg(long)]
    pub json: bool,
}

/// Who we are to the registry.
#[derive(Clone, Debug, clap::Args)]
struct LoginArgs {
    /// File of logins, as `docker login` and `podman login` write it
    #[arg(long, value_name = "FILE", conflicts_with = "username")]
    auth_file: Option<PathBuf>,
    /// User (or robot) of the registry
    #[arg(long, value_name = "NAME", requires = "password_from")]
    username: Option<String>,
    /// Where its password is: file:PATH or env:NAME
    // Read by hand: clap would repeat what somebody typed in place of a source.
    #[arg(long, value_name = "SOURCE", requires = "username")]
    password_from: Option<String>,
    /// CA certificates (PEM) to trust besides the usual ones
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Speak http, without encryption; the login goes over it too
    #[arg(long)]
    plain_http: bool,
}

/// Keys and signatures of the bundle.
#[derive(Clone, Debug, Default, clap::Args)]
struct TrustArgs {
    /// Trusted public key; may be given several times, and those in $KUBEXM_HOME/trusted-keys/*.pub count as given.
    /// With a key, only a bundle with a valid signature by one of them is accepted (exit 34)
    #[arg(long = "key", value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// Signatures in a separate file (NAME.sig), in addition to those in the bundle
    #[arg(long = "signature", value_name = "FILE")]
    signatures: Vec<PathBuf>,
    /// Accept no bundle without a valid signature by a trusted key (exit 34)
    #[arg(long)]
    require_signature: bool,
}

/// A kind of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Only {
    Images,
    Charts,
    Files,
}

#[derive(Clone, Debug)]
struct MapOut {
    form: MapForm,
    path: PathBuf,
}

fn map_out(text: &str) -> Result<MapOut, String> {
    match text.split_once('=').map(|(form, path)| (form.parse(), path)) {
        Some((Ok(form), path)) => Ok(MapOut { form, path: path.into() }),
        // A file may have `=` in its name; a form has no slash.
        Some((Err(error), _)) if !text.contains('/') => Err(error),
        _ => Ok(MapOut { form: MapForm::Map, path: text.into() }),
    }
}

fn secret(text: &str) -> Result<SecretSource, String> {
    match text.split_once(':') {
        Some(("env", name)) if !name.is_empty() => Ok(SecretSource::Env(name.to_owned())),
        Some(("file", path)) if !path.is_empty() => Ok(SecretSource::File(path.into())),
        // Not repeated: somebody may have typed the password itself.
        _ => Err(
            "wanted is file:PATH or env:NAME, never the password itself; a file of docker's or podman's is --auth-file"
                .to_owned(),
        ),
    }
}

/// What `--map-out` writes, in any form.
const MAP: Kind = Kind { name: "a map of kubexm-install seed", recognise: Some(is_map), access: Access::Umask };

fn is_map(file: &mut dyn std::io::Read) -> bool {
    let head = head(file, 4096);
    let text = String::from_utf8_lossy(&head);
    ["kubexm.io/seed-map/", "name: kubexm-seed", "kubexm-install seed"].iter().any(|mark| text.contains(mark))
}

pub fn run(args: &Args, display: &Display) -> Result<(), Failure> {
    for out in &args.map_out {
        kubexm_files::check(&out.path, &MAP, args.force).map_err(NoOption)?;
    }
    let on_standard_input = |path: &PathBuf| path.as_os_str() == "-";
    if (args.bundle.len() > 1 && args.bundle.iter().any(on_standard_input)) || args.bases.iter().any(on_standard_input)
    {
        let text = "standard input (-) is one whole bundle: name neither other volumes nor a --base with it";
        return Err(Failure::new(ExitCode::Usage, text));
    }
    let password = args.login.password_from.as_deref().map(secret).transpose();
    let password = password.map_err(|problem| Failure::new(ExitCode::Usage, format!("--password-from: {problem}")))?;
    let home = home()?;
    let (waiting, mut waits) = tokio::sync::mpsc::unbounded_channel();
    // A closed channel means that nobody waits for the answer any more.
    let watch = Watch::new(move |kind| drop(waiting.send(kind)));
    let connection = Connection {
        credentials: logins::credentials(
            args.login.auth_file.as_deref(),
            args.login.username.as_deref().zip(password.as_ref()),
            &args.to.registry,
            &home,
        )?,
        ca_file: args.login.ca_file.clone(),
        plain_http: args.login.plain_http,
        parallel: args.jobs.into(),
        watch,
        ..Connection::default()
    };
    // The registry is no file: `registry.example.com/mirror`, as in --to.
    let is_registry = |base: &PathBuf| base.to_str().is_some_and(|text| text.parse() == Ok(args.to.clone()));
    let rest_in_registry = args.bases.iter().any(is_registry);
    let bases: Vec<PathBuf> = args.bases.iter().filter(|base| !is_registry(base)).cloned().collect();
    let spool =
        Spool { folder: &args.spool.clone().unwrap_or_else(|| home.seeded()), report: &|kind| display.emit(kind) };
    let bundle = kubexm_seed::open(&args.bundle, &bases, rest_in_registry, &connection, spool)?;
    let TrustArgs { keys, signatures, require_signature } = args.trust.clone();
    let trust = TrustOptions { keys, signatures, require_signature, allow_unsigned: false };
    let provenance = trust.judge(&bundle, &home)?;
    let signed = provenance.vouches_for(&bundle);
    let text = format!("{}: {provenance}", bundle.manifest().name);
    display.emit(if signed { EventKind::Note { text } } else { EventKind::Warning { text } });
    let of_bundle = kubexm_seed::namespace_override(&bundle);
    let namespace_override = namespace(args.namespace_override.as_deref(), of_bundle, signed)?;
    let naming = Naming { target: args.to.clone(), namespace_override };
    let options = SeedOptions {
        naming: naming.clone(),
        kinds: kinds(&args.only),
        choice: Choice { platforms: args.platform.clone(), sparse_indexes: args.sparse_indexes },
        overwrite_tags: args.overwrite_tags,
        rest_in_registry,
        dry_run: args.dry_run,
        connection,
        record: RecordFolder::below(&home.seeded(), &args.to),
    };
    let cancel = CancellationToken::new();
    let report = |kind: EventKind| display.emit(kind);
    let shown = async {
        while let Some(kind) = waits.recv().await {
            display.emit(kind);
        }
        std::future::pending::<()>().await;
    };
    let seeding = async {
        tokio::select! {
            ended = kubexm_seed::seed(&bundle, &options, &cancel, &report) => ended,
            () = shown => Err(SeedError::Stopped),
        }
    };
    let events: &dyn EventSink = &Shown(display);
    let seeded = start::runtime()?.block_on(interrupt::watched(events, &cancel, seeding))?;
    for out in &args.map_out {
        let text = map_text(out.form, &naming, &seeded, args.login.plain_http);
        let stdout = |content: &[u8]| {
            display.give(content);
        };
        kubexm_files::put(&out.path, &MAP, args.force, text.as_bytes(), &stdout).map_err(NoOption)?;
    }
    finish(&seeded, display)
}

/// Where images go. Whoever made a bundle that no trusted key has signed does not choose that: the operator has to name the folder, or
/// an empty text for none.
fn namespace(given: Option<&str>, of_bundle: Option<String>, signed: bool) -> Result<Option<String>, Failure> {
    match (given, of_bundle) {
        (Some(""), _) => Ok(None),
        (Some(given), _) => Ok(Some(given.to_owned())),
        (None, Some(folder)) if !signed => {
            let folder = escaped(&folder);
            let text = format!(
                "the bundle is NOT SIGNED by a key you trust, and its cluster.yaml puts all images into the folder {folder} of the registry \
                 (registry.namespaceOverride): if that is right, say --namespace-override {folder}; for one folder for each upstream host, \
                 say --namespace-override ''"
            );
            Err(Failure::new(ExitCode::UnsignedCluster, text))
        }
        (None, of_bundle) => Ok(of_bundle),
    }
}

fn kinds(only: &[Only]) -> Kinds {
    if only.is_empty() {
        return Kinds::default();
    }
    let has = |kind| only.contains(&kind);
    Kinds { images: has(Only::Images), charts: has(Only::Charts), files: has(Only::Files) }
}

fn finish(seeded: &SeedReport, display: &Display) -> Result<(), Failure> {
    let data = serde_json::to_value(seeded)
        .map_err(|error| Failure::new(ExitCode::Internal, format!("the result cannot be written: {error}")))?;
    if seeded.dry_run && display.mode() != kubexm_terminal::Mode::Json {
        let line = |entry: &kubexm_seed::Mapped| {
            let state = if entry.state == State::Present { "there" } else { "send" };
            format!("{state:6} {} -> {}", entry.from, entry.to)
        };
        display.answer(&seeded.entries.iter().map(line).collect::<Vec<_>>().join("\n"));
    }
    if let Some(refused) = &seeded.refused {
        return Err(Failure { code: refused.code, text: refused.text.clone(), data: Some(data) });
    }
    display.emit(EventKind::Result { ok: true, exit_code: 0, summary: summary(seeded), data: Some(data) });
    Ok(())
}

fn summary(seeded: &SeedReport) -> String {
    let totals = seeded.totals;
    let of = |kind| seeded.entries.iter().filter(|entry| entry.kind == kind).count() as u64;
    let there = seeded.count(State::Present);
    let what = [("image", of("image")), ("chart", of("chart")), ("file", of("file"))]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| counted(count, kind))
        .collect::<Vec<_>>()
        .join(", ");
    if seeded.dry_run {
        return format!(
            "{}: of {what}, {there} are there; at most {} ({}) would be sent. Nothing was changed",
            seeded.target,
            counted(totals.blobs_sent, "blob"),
            bytes(totals.bytes_sent)
        );
    }
    format!(
        "{}: {what}, of which {there} were there; {} sent ({}), {} mounted, {} found; {} compared",
        seeded.target,
        counted(totals.blobs_sent, "blob"),
        bytes(totals.bytes_sent),
        totals.blobs_mounted,
        totals.blobs_present,
        counted(seeded.audited, "reference"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_written_in_a_form_or_as_a_map_and_a_password_is_no_argument() {
        let read = |text: &str| map_out(text).map(|out| (out.form, out.path.display().to_string()));
        assert_eq!(read("map.yaml"), Ok((MapForm::Map, "map.yaml".to_owned())));
        assert_eq!(read("hosts.toml=h"), Ok((MapForm::HostsToml, "h".to_owned())));
        assert_eq!(read("/a/b=c"), Ok((MapForm::Map, "/a/b=c".to_owned())));
        assert!(read("hoststoml=h").is_err());
        let refused = secret("hunter2").unwrap_err();
        assert!(refused.contains("file:PATH") && !refused.contains("hunter2"));
        assert_eq!(secret("env:A"), Ok(SecretSource::Env("A".to_owned())));
    }

    #[test]
    fn an_unsigned_bundle_does_not_choose_where_images_go() {
        let of_bundle = || Some("team-a\nx".to_owned());
        let refused = namespace(None, of_bundle(), false).unwrap_err();
        assert_eq!(refused.code, ExitCode::UnsignedCluster);
        assert!(
            refused.text.contains("NOT SIGNED") && refused.text.contains(r"--namespace-override team-a\nx"),
            "{refused:?}"
        );
        assert_eq!(namespace(None, of_bundle(), true).unwrap(), of_bundle());
        assert_eq!(namespace(Some("mine"), of_bundle(), false).unwrap().as_deref(), Some("mine"));
        assert_eq!(namespace(Some(""), of_bundle(), true).unwrap(), None);
        assert_eq!(namespace(None, None, false).unwrap(), None);
    }
}
