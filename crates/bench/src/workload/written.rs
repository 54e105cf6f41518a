//! Sizes and times in files: written as numbers, read as numbers or text (`"64K"`, `"500ms"`).

use std::time::Duration;

use cachewise_units::{Bytes, Period};
use serde::{Deserialize, Serialize};

/// A value in a file.
#[derive(Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "it is a number, or text with a unit: \"64K\" is a size, \"500ms\" a time"
)]
pub(super) enum Written {
    Whole(i64),
    Number(f64),
    Text(String),
}

/// Conversion between a value and its form in files.
pub(super) trait Quantity: Sized {
    fn written(&self) -> Written;

    /// # Errors
    /// The fault in the text.
    fn read(written: Written) -> Result<Self, String>;
}

/// A whole number of bytes.
impl Quantity for Bytes {
    fn written(&self) -> Written {
        i64::try_from(self.0).map_or(Written::Text(self.0.to_string()), Written::Whole)
    }

    fn read(written: Written) -> Result<Self, String> {
        match written {
            Written::Whole(bytes) => u64::try_from(bytes)
                .map(Bytes)
                .map_err(|_| format!("{bytes} is negative, and sizes are not")),
            Written::Number(bytes) => Err(format!(
                "{bytes} is not a size: write whole bytes, or text with a unit, for example \"1.5G\""
            )),
            Written::Text(text) => text.parse().map_err(|error| format!("{error}")),
        }
    }
}

/// Seconds with a fraction.
impl Quantity for Duration {
    fn written(&self) -> Written {
        Written::Number(self.as_secs_f64())
    }

    fn read(written: Written) -> Result<Self, String> {
        let seconds = match written {
            Written::Whole(seconds) => seconds as f64,
            Written::Number(seconds) => seconds,
            Written::Text(text) => {
                return text
                    .parse()
                    .map(Period::get)
                    .map_err(|error| format!("{error}"));
            }
        };
        Duration::try_from_secs_f64(seconds)
            .map_err(|error| format!("{seconds} is not a time in seconds: {error}"))
    }
}

/// For mandatory fields.
pub(super) mod one {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::workload::written::{Quantity, Written};

    pub fn serialize<T: Quantity, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        value.written().serialize(to)
    }

    pub fn deserialize<'de, T: Quantity, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        T::read(Written::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// For optional fields.
pub(super) mod maybe {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::workload::written::{Quantity, Written};

    #[expect(clippy::ref_option, reason = "serde hands it over so")]
    pub fn serialize<T: Quantity, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(Quantity::written).serialize(to)
    }

    pub fn deserialize<'de, T: Quantity, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        let written = Option::<Written>::deserialize(from)?;
        written.map(T::read).transpose().map_err(D::Error::custom)
    }
}
