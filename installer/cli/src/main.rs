//! `kubexm-install`: makes a Kubernetes cluster of a bundle, where there is no internet; on the nodes it is the agent.

mod commands;
mod render;
mod terminal;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// For the builder's bill of materials, which reads it of a file that it cannot run.
#[used]
static VERSION: &str = kubexm_spec::program_mark!(env!("CARGO_PKG_VERSION"));

fn main() -> std::process::ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let cli = match commands::Cli::read(&arguments) {
        Ok(cli) => cli,
        Err(error) => return kubexm_terminal::end_of_arguments(&error, &arguments),
    };
    let display = kubexm_terminal::Display::new(kubexm_terminal::Mode::choose(cli.json()));
    let result = commands::run(cli, &display);
    kubexm_terminal::finish(&display, result)
}
