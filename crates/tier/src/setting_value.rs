//! [`SettingValue`]: values of settings as text.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use cachewise_units::{Bytes, Period};

use crate::Error;
use crate::remote::{EngineSettings, ZoneMap};

/// A type of settings, as text.
pub(crate) trait SettingValue: Sized {
    /// # Errors
    /// The fault in the text.
    fn read(text: &str, unit: &str) -> Result<Self, String>;

    fn shown(&self, unit: &str) -> String;
}

macro_rules! as_printed {
    ($($type:ty: $why:expr),+) => {$(
        impl SettingValue for $type {
            fn read(text: &str, _: &str) -> Result<Self, String> {
                text.parse::<$type>().map_err(|error| $why(text, error))
            }

            fn shown(&self, _: &str) -> String {
                self.to_string()
            }
        }
    )+};
}

as_printed!(
    Bytes: own,
    bool: |text, _| format!("{text:?} is not true or false"),
    usize: |text, _| format!("{text:?} is not a whole number from 0"),
    f64: |text, _| format!("{text:?} is not a number"),
    String: own,
    // Its error names the setting, which every caller of this names itself.
    EngineSettings: |_, error| match error {
        Error::Setting { why, .. } => why,
        other => other.to_string(),
    },
    ZoneMap: own
);

/// Returns an error that this project words.
fn own(_: &str, error: impl Display) -> String {
    error.to_string()
}

impl SettingValue for PathBuf {
    fn read(text: &str, _: &str) -> Result<Self, String> {
        Ok(text.into())
    }

    fn shown(&self, _: &str) -> String {
        self.to_string_lossy().into_owned()
    }
}

impl<T: SettingValue> SettingValue for Option<T> {
    fn read(text: &str, unit: &str) -> Result<Self, String> {
        T::read(text, unit).map(Some)
    }

    fn shown(&self, unit: &str) -> String {
        self.as_ref()
            .map_or_else(String::new, |value| value.shown(unit))
    }
}

/// A time above 0; the word behind `|` in the unit is 0.
impl SettingValue for Duration {
    fn read(text: &str, unit: &str) -> Result<Self, String> {
        if unit.split_once('|').is_some_and(|(_, zero)| zero == text) {
            return Ok(Self::ZERO);
        }
        let interval = text.parse().map(Period::get);
        interval.map_err(|error| error.to_string())
    }

    fn shown(&self, unit: &str) -> String {
        if let Some((_, zero)) = unit.split_once('|').filter(|_| self.is_zero()) {
            return zero.to_owned();
        }
        match self.as_secs() {
            hours @ 3600.. if *self == Self::from_secs(hours / 3600 * 3600) => {
                format!("{}h", hours / 3600)
            }
            _ => format!("{self:?}"),
        }
    }
}
