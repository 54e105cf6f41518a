//! Test programs that do the same on one file system after the other, each made for it and mounted over a loop device.

#[path = "../../../probe/tests/kit/image.rs"]
#[allow(dead_code, reason = "made for more than this")]
mod image;

use std::path::Path;
use std::process::ExitCode;

pub use image::FileSystem;
use image::{NotMounted, Workshop, enter_own_mount_namespace};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// A test in a directory of a file system.
pub type Test = fn(FileSystem, &Path) -> Result<(), Failed>;

/// Runs the tests of `here`, and one, of this name, on each of these file systems. Without root that one is skipped, with
/// a line that says `what`.
pub fn run(
    what: &str,
    here: Vec<Trial>,
    kinds: &[FileSystem],
    (name, test): (&str, Test),
) -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Two at once would take each other's pages.
    arguments.test_threads = Some(1);
    let why_not = match rustix::process::geteuid().is_root() {
        true => enter_own_mount_namespace()
            .err()
            .map(|problem| problem.to_string()),
        false => Some("needs root".to_owned()),
    };
    if let Some(reason) = &why_not
        && !arguments.list
    {
        println!("skipped: {what}: {reason}");
    }
    let mut trials = here;
    for &kind in kinds {
        let why_not = why_not.clone();
        trials.push(Trial::ignorable_test(
            format!("{kind}::{name}"),
            move || match why_not {
                Some(reason) => Ok(Completion::ignored_with(reason)),
                None => on(kind, test),
            },
        ));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn on(kind: FileSystem, test: Test) -> Result<Completion, Failed> {
    let workshop = Workshop::open("residency").map_err(|problem| problem.to_string())?;
    let mounted = match workshop.mount(kind) {
        Ok(mounted) => mounted,
        Err(NotMounted::Missing(what)) => return Ok(Completion::ignored_with(what)),
        Err(NotMounted::Failed(problem)) => return Err(problem.to_string().into()),
    };
    test(kind, mounted.directory())?;
    Ok(Completion::Completed)
}
