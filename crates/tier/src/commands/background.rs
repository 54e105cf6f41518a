//! A mount that goes on in the background: `mount --background`, which mount(8) starts as `mount.cachewise`.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use cachewise_cli::output::FAILED;
use cachewise_cli::settings::FILE;
use cachewise_tier::Setting;
use tempfile::TempDir;

use crate::commands::arguments::OPTIONS;

/// The name by which mount(8) starts a helper for `-t cachewise`.
pub const HELPER: &str = "mount.cachewise";

/// The flag of a mount that is started in the background.
pub const BACKGROUND: &str = "--background";
/// The flag of the process that is started so.
pub const DETACHED: &str = "--detached";

/// Interval of the check whether the started process has ended.
const LOOK: Duration = Duration::from_millis(50);

/// Options of mount(8) that are of no matter here: those that the mount has anyway, and those that mount(8) and systemd
/// act on.
const IGNORED: [&str; 24] = [
    "ro",
    "rw",
    "defaults",
    "auto",
    "noauto",
    "nofail",
    "_netdev",
    "user",
    "users",
    "nouser",
    "owner",
    "group",
    "nosuid",
    "suid",
    "nodev",
    "dev",
    "exec",
    "atime",
    "noatime",
    "relatime",
    "async",
    "sync",
    "lazytime",
    "nolazytime",
];

/// The command line that was meant: that of mount(8)'s helper becomes one of `mount`.
///
/// # Errors
/// An option that there is not.
pub fn typed(arguments: impl IntoIterator<Item = OsString>) -> Result<Vec<OsString>> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let program = arguments
        .first()
        .and_then(|first| Path::new(first).file_name());
    if program != Some(OsStr::new(HELPER)) {
        return Ok(arguments);
    }
    let mut typed: Vec<OsString> = ["cachewise-tier", "mount", BACKGROUND]
        .map(Into::into)
        .into();
    typed.push(format!("--{OPTIONS}").into());
    let mut places = Vec::new();
    let mut left = arguments.into_iter().skip(1);
    while let Some(argument) = left.next() {
        match argument.to_str() {
            Some("-o") => {
                let options = left.next().unwrap_or_default();
                let options = options.into_string();
                let options = options.map_err(|_| anyhow!("the options of -o are not UTF-8"))?;
                for option in options.split(',') {
                    typed.extend(flag(option)?);
                }
            }
            // The type, and a name space of a file system: nothing that matters here.
            Some("-t" | "-N") => drop(left.next()),
            Some("-s" | "-n" | "-v") => {}
            Some("-f") => bail!("a mount that is not made (-f) is nothing that cachewise can do"),
            _ => places.push(argument),
        }
    }
    typed.push("--".into());
    typed.extend(places);
    Ok(typed)
}

/// The flag of an option of mount(8).
fn flag(option: &str) -> Result<Option<OsString>> {
    if let Some((FILE, value)) = option.split_once('=') {
        return Ok(Some(format!("--{FILE}={value}").into()));
    }
    let set = setting_of(option).with_context(|| format!("option {option}"))?;
    Ok(set.map(|(setting, value)| {
        let flag = setting.flag();
        match setting.unit {
            "" => format!("--{flag}").into(),
            _ => format!("--{flag}={value}").into(),
        }
    }))
}

/// Returns the setting of an option of mount(8), with its value; `None` for an option that is ignored.
///
/// # Errors
/// There is no such setting.
pub fn setting_of(option: &str) -> Result<Option<(&'static Setting, String)>> {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    let is_ignored = IGNORED.contains(&option)
        || ["", "comment"].contains(&name)
        || name.to_ascii_lowercase().starts_with("x-");
    if is_ignored {
        return Ok(None);
    }
    let setting = Setting::find(name).map_err(anyhow::Error::msg)?;
    let value = match setting.unit {
        "" => "true",
        _ => value,
    };
    Ok(Some((setting, value.to_owned())))
}

/// Starts this command line once more, detached, and waits until it has mounted.
pub fn start(typed: &[OsString]) -> Result<ExitCode> {
    let ready = Ready::bind()?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let arguments = typed.iter().skip(1).map(|argument| match argument {
        argument if argument == BACKGROUND => OsStr::new(DETACHED),
        argument => argument,
    });
    let mut child = Command::new(program)
        .args(arguments)
        .env("NOTIFY_SOCKET", ready.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start the mount")?;
    Ok(match ready.wait(&mut child)? {
        None => ExitCode::SUCCESS,
        Some(status) => {
            // It has printed why.
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            ExitCode::from(code.unwrap_or(FAILED))
        }
    })
}

/// The socket on which a mount reports that it is ready: `NOTIFY_SOCKET`, as of systemd.
#[derive(Debug)]
pub struct Ready {
    socket: UnixDatagram,
    path: PathBuf,
    /// Deleted at the end.
    _directory: TempDir,
}

impl Ready {
    /// Makes it.
    ///
    /// # Errors
    /// No directory for temporary files can be written.
    pub fn bind() -> Result<Self> {
        let directory = tempfile::tempdir().context("cannot make a directory for a socket")?;
        let path = directory.path().join("ready");
        let socket = UnixDatagram::bind(&path).context("cannot make a socket")?;
        socket.set_read_timeout(Some(LOOK))?;
        Ok(Self {
            socket,
            path,
            _directory: directory,
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until the mount is ready; returns the status of one that has ended.
    ///
    /// # Errors
    /// The socket cannot be read, or the process not be waited for.
    pub fn wait(&self, child: &mut Child) -> Result<Option<ExitStatus>> {
        let mut message = [0; 256];
        loop {
            match self.socket.recv(&mut message) {
                Ok(length) if message[..length].starts_with(b"READY=1") => return Ok(None),
                Ok(_) => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error).context("cannot read from the socket"),
            }
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
        }
    }
}

/// Leaves the terminal and its session.
pub fn detach() {
    // It fails in a process that leads a session already.
    let _ = rustix::process::setsid();
}

/// Notifies what waits for the mount: systemd, or the command that started it. Messages of a detached process have no
/// reader from then on.
pub fn ready(is_detached: bool) -> Result<()> {
    sd_notify::notify(false, &[sd_notify::NotifyState::Ready])
        .context("cannot notify NOTIFY_SOCKET")?;
    if is_detached {
        let null = std::fs::File::options().write(true).open("/dev/null");
        rustix::stdio::dup2_stderr(null.context("cannot open /dev/null")?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &[&str]) -> Result<Vec<String>> {
        let typed = typed(line.iter().map(Into::into))?;
        Ok(typed
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect())
    }

    #[test]
    fn options_of_fstab_become_flags() {
        let line = [
            "/sbin/mount.cachewise",
            "s3://bucket/data",
            "/mnt",
            "-o",
            "rw,_netdev,x-systemd.automount,memory=1G,allow_other,settings=/etc/data.toml",
            "-t",
            "cachewise",
        ];
        assert_eq!(
            of(&line).expect("all are known"),
            [
                "cachewise-tier",
                "mount",
                "--background",
                "--from-mount-options",
                "--memory=1G",
                "--allow-other",
                "--settings=/etc/data.toml",
                "--",
                "s3://bucket/data",
                "/mnt",
            ]
        );
    }

    #[test]
    fn options_that_there_are_not_are_refused() {
        for option in ["memmory=1G", "noexec", "uid=5"] {
            let error = of(&[HELPER, "/a", "/b", "-o", option]).expect_err(option);
            let error = format!("{error:#}");
            assert!(error.contains("no such setting"), "{error}");
        }
    }

    #[test]
    fn other_command_lines_stay() {
        let line = ["cachewise-tier", "mount", "-o", "x"];
        assert_eq!(of(&line).expect("nothing is read"), line);
    }
}
