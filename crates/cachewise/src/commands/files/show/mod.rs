//! Output of files: streamed as they come, or the first rows of an order, with the total below.

mod listing;
mod sums;

use std::io::{BufWriter, Write};

use anyhow::{Context, Result, bail};
use cachewise_cli::output::{self, Sink, tell};
use cachewise_cli::sinks::Sinks;
use cachewise_model::{Field, Row};
use cachewise_view::{Format, RowWriters};

use super::batched::Batched;
use super::counting::Counting;
use super::notes::Notes;
use super::order::Order;
use crate::interrupt::Stop;
use crate::options::{FileLabels, Output};
use sums::ended;

pub use listing::Listing;
pub use sums::sum_row;

/// Default of `--top` for tables of directories and of the whole machine.
const TOP: usize = 20;

/// The outputs of a list, and the rows that they get.
pub struct Show {
    tables: Vec<Sink>,
    /// Those of other formats.
    documents: Vec<Sink>,
    name: String,
    has_table: bool,
    /// The width of the terminal that columns have to fit.
    room: Option<usize>,
    /// `None`: as they come.
    order: Option<Order>,
    /// Maximum rows in all.
    most: Option<usize>,
    /// Maximum rows of tables.
    most_in_tables: Option<usize>,
    plan: Plan,
    /// Notes that were printed for this list before.
    notes: Notes,
    /// A repeated list in a machine format: its repetitions are one document.
    stream: Option<Stream>,
    stop: Stop,
}

/// A document with several repetitions, and the total of the last one.
struct Stream {
    writers: RowWriters<Batched>,
    total: Row,
}

/// Selection and form of the rows.
#[derive(Debug)]
pub struct Plan {
    /// Whether no path is a directory; `None` if that was not examined, because no table depends on it.
    pub are_files: Option<bool>,
    pub columns: Vec<&'static Field>,
    /// They were chosen by the user: all are shown, whether there is room or not.
    pub columns_are_chosen: bool,
    /// Every file was named, so every one is wanted: not just the first few.
    pub all_are_named: bool,
    pub order: Order,
    /// Whether `--sort` or `--reverse` was given.
    pub order_is_chosen: bool,
    /// Maximum number of rows; 0 shows all.
    pub top: Option<usize>,
    pub only_cached: bool,
    pub maps: bool,
    pub strips: bool,
    pub repeated: bool,
    pub labels: Option<FileLabels>,
}

impl Show {
    /// Opens the output.
    pub fn open(output: &Output, plan: Plan) -> Result<Show> {
        let sinks = match plan.repeated {
            true => Sinks::open(output, output::Stream::Stdout)?,
            false => Sinks::open_whole(output, output::Stream::Stdout)?,
        };
        let name = sinks.names();
        let (tables, documents): (Vec<Sink>, Vec<Sink>) = sinks
            .into_iter()
            .partition(|sink| sink.format == Format::Table);
        let has_table = !tables.is_empty();
        // Whatever is under a directory is too much for a table.
        let is_cut = has_table && !plan.all_are_named;
        let most_in_tables = match plan.top {
            Some(0) => None,
            Some(top) => Some(top),
            None => is_cut.then_some(TOP),
        };
        let most = match plan.top {
            None if !documents.is_empty() => None,
            _ => most_in_tables,
        };
        let is_ordered = plan.order_is_chosen || most_in_tables.is_some() || is_cut;
        let terminal = tables.iter().find(|sink| sink.is_terminal);
        Ok(Show {
            name,
            room: terminal
                .filter(|_| !plan.columns_are_chosen)
                .map(|sink| sink.style.width),
            // A screen that is drawn anew has to have all notes anew.
            notes: Notes::new(plan.repeated && terminal.is_none()),
            tables,
            documents,
            has_table,
            order: is_ordered.then_some(plan.order),
            most,
            most_in_tables,
            plan,
            stream: None,
            stop: Stop::default(),
        })
    }

    /// Says whether the order in which files come is the one in which they are shown.
    pub fn keeps_order(&self) -> bool {
        self.order.is_none()
    }

    /// Whether no path is a directory; `None` if that was not examined.
    pub fn are_files(&self) -> Option<bool> {
        self.plan.are_files
    }

    /// Has the list end early, with what was found until then.
    pub fn end_early(&mut self, stop: Stop) {
        self.stop = stop;
    }

    /// Whether the list is to end.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// The order of `--sort`, and the maximum number of rows.
    pub fn chosen_order(&self) -> Option<(Order, Option<usize>)> {
        self.order.map(|order| (order, self.most))
    }

    /// Counts files that are shown in another way.
    pub fn count(&mut self) -> Counting {
        Counting::new(std::mem::take(&mut self.notes))
    }

    /// Tells something of the whole list.
    pub fn note(&mut self, text: &str) {
        self.notes.tell(text);
    }

    /// Writes something that is no rows, to the one output.
    pub fn raw(&mut self, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
        let mut sinks = std::mem::take(&mut self.tables);
        sinks.append(&mut self.documents);
        let sink = match (sinks.pop(), sinks.is_empty()) {
            (Some(sink), true) => sink,
            _ => bail!("this document has one form: remove all -o but one"),
        };
        let mut out = BufWriter::new(sink);
        let written = write(&mut out).and_then(|()| {
            let ended = out.into_inner();
            ended.map_err(std::io::IntoInnerError::into_error)
        });
        self.documents = vec![written.with_context(|| format!("cannot write to {}", self.name))?];
        Ok(())
    }

    /// Replaces the output files with the complete ones. Without this call, the old files stay.
    pub fn keep(&mut self) -> Result<()> {
        let mut sinks = std::mem::take(&mut self.tables);
        sinks.append(&mut self.documents);
        Sinks::from(sinks).keep()
    }

    /// Adds a line below tables.
    pub fn line(&mut self, text: &str) -> Result<()> {
        for sink in &mut self.tables {
            writeln!(sink, "{text}").with_context(|| format!("cannot write to {}", self.name))?;
        }
        // A repeated document has no line about each repetition.
        if !self.has_table && !self.plan.repeated {
            tell(text);
        }
        Ok(())
    }

    /// Ends a document with several repetitions.
    pub fn close(&mut self) -> Result<()> {
        if let Some(Stream { writers, total }) = self.stream.take() {
            ended(writers, Some(&total))
                .with_context(|| format!("cannot write to {}", self.name))?;
        }
        Ok(())
    }
}
