//! A recording on the terminal, sample by sample.

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use cachewise_model::Stretch;
use cachewise_recording::History;
use cachewise_tui::{App, Kind, Scene, Setup};
use cachewise_units::PageSize;

use crate::cli::Report;
use crate::output::{FAILED, tell};
use crate::top::look_of;

/// The samples by number, as the terminal's view asks for them.
struct Samples(History);

impl cachewise_tui::History for Samples {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&mut self, place: usize) -> Result<Stretch, String> {
        match self.0.get(place) {
            Ok(Some(sample)) => Ok(sample.stretch),
            Ok(None) => Err(format!("there is no sample {}", place + 1)),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Steps through a recording until the user has had enough.
pub fn step(arguments: &Report) -> Result<ExitCode> {
    if !std::io::stdout().is_terminal() {
        bail!(
            "standard output is no terminal to step through a recording on: --series writes every sample"
        );
    }
    let mut history = History::open(&arguments.file)?;
    let problems: Vec<String> = history.problems().iter().map(ToString::to_string).collect();
    // Its session is known once a sample was read.
    history.get(0)?;
    let Some(session) = history.session().cloned() else {
        bail!(
            "{} has no sample that could be read",
            arguments.file.display()
        );
    };
    let app = App::new(Setup {
        scene: Scene::Recording,
        look: look_of(arguments.output.color, false),
        page: u32::try_from(session.page_size)
            .ok()
            .and_then(PageSize::new)
            .unwrap_or_else(cachewise_sys::page_size),
        hostname: session.hostname.clone(),
        backend: session.backend(),
        interval: session.interval,
        readonly: true,
        view: Kind::Process,
        filter: None,
        sort: None,
        scope: Some(session.scope.clone()).filter(|scope| !scope.is_empty()),
    });
    let options = cachewise_tui::Options {
        mouse: true,
        count: None,
    };
    cachewise_tui::replay(app, Samples(history), options)
        .context("cannot show the recording; --series writes every sample")?;
    problems.iter().for_each(|problem| tell(problem));
    Ok(match problems.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FAILED),
    })
}
