//! A recording on the terminal, sample by sample.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use cachewise_model::Interval;
use cachewise_recording::{History, Range};
use cachewise_tui::{App, Recorded, Scene, Setup, ViewKind};

use super::arguments::Report;
use crate::commands::top::{self, look_of};
use crate::options::FileLabels;

use super::ending::{finish, nothing_in};
use super::pick::Picked;

/// The samples by number, as the view on the terminal requests them.
struct Samples(History, Option<FileLabels>, Option<Picked>);

impl cachewise_tui::History for Samples {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&mut self, place: usize) -> Result<Interval, String> {
        match self.0.get(place) {
            Ok(Some(mut sample)) => {
                if let Some(picked) = &mut self.2 {
                    picked.keep(&mut sample.interval);
                }
                if let Some(labels) = &self.1 {
                    labels.apply(&mut sample.interval);
                }
                Ok(sample.interval)
            }
            Ok(None) => Err(format!("there is no sample {}", place + 1)),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Fails where there is nothing to show samples on.
pub fn check_terminal() -> Result<()> {
    if !std::io::stdout().is_terminal() {
        bail!("--tui needs a terminal as standard output; --series writes every sample");
    }
    top::check_terminal("use --series for every sample")
}

/// Steps through the samples of a range until the user has had enough.
pub fn step(arguments: &Report, range: Range) -> Result<ExitCode> {
    let labels = arguments.labels.read()?;
    let picked = Picked::of(&arguments.selection);
    let mut history = History::open(arguments.file(), range)?;
    let problems = history.problems().to_vec();
    // The session is that of the sample.
    let Some(session) = history.get(0)?.and_then(|_| history.session().cloned()) else {
        return nothing_in(arguments, &problems);
    };
    let app = App::new(Setup {
        scene: Scene::Recording,
        look: look_of(arguments.output.color, false),
        source: Arc::new(session.source()),
        interval: session.interval,
        readonly: true,
        view: ViewKind::Process,
        filter: None,
        sort: None,
        scope: Some(match picked {
            Some(_) => super::pick::part(&arguments.selection, &session.scope),
            None => session.scope.clone(),
        })
        .filter(|scope| !scope.is_empty()),
        settings: top::settings(),
        recorded: Some(Recorded {
            name: arguments.file().to_string_lossy().into_owned(),
            top: session.top,
        }),
    });
    let options = cachewise_tui::LiveOptions {
        mouse: true,
        count: None,
    };
    cachewise_tui::replay(app, Samples(history, labels, picked), options)
        .context("cannot show the recording; --series writes every sample")?;
    finish(Ok(()), &problems)
}
