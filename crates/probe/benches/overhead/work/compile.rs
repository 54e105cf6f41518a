//! A compiler at work.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Goal, Limit, Work};
use crate::Outcome;
use crate::machine::Clock;
use crate::variant::Variant;

const UNITS: usize = 20;

/// A real compiler on small sources.
pub struct Compile {
    directory: PathBuf,
}

impl Compile {
    pub fn new(directory: &Path) -> Self {
        Compile {
            directory: directory.join("units"),
        }
    }
}

impl Work for Compile {
    fn name(&self) -> &'static str {
        "compile"
    }

    fn operation(&self) -> &'static str {
        "gcc -c"
    }

    fn goals(&self) -> &'static [Goal] {
        &[(Variant::Run, Limit::Ratio(1.02))]
    }

    fn clock(&self) -> Clock {
        Clock::Children
    }

    fn prepare(&mut self) -> Outcome<()> {
        fs::create_dir_all(&self.directory)?;
        for unit in 0..UNITS {
            let mut source =
                String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
            for i in 0..10 {
                writeln!(
                    source,
                    "int f{i}(int n, const char *s) {{ int x = {unit}; for (int k = 0; k < n; k++)\n\
                     x += s[k] * {i} + (int)strlen(s); printf(\"%d\", x); return x; }}"
                )?;
            }
            fs::write(self.directory.join(format!("{unit}.c")), source)?;
        }
        self.run(None)?;
        Ok(())
    }

    fn run(&mut self, _: Option<u64>) -> Outcome<u64> {
        for unit in 0..UNITS {
            let status = Command::new("gcc")
                .args(["-c", "-O1", "-o", "out.o", &format!("{unit}.c")])
                .current_dir(&self.directory)
                .stdin(Stdio::null())
                .status()?;
            if !status.success() {
                return Err(format!("gcc: {status}").into());
            }
        }
        Ok(UNITS as u64)
    }

    fn warms_up(&self) -> bool {
        false
    }

    fn pages(&self, operations: u64) -> u64 {
        operations
    }
}
