//! The head of each document: time and machine.

use cachewise_kstat::Kernel;
use cachewise_model::SCHEMA_VERSION;
use serde_json::{Map, Value as Json};

/// Now, in UTC, to the millisecond.
pub fn timestamp() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

/// The name of the machine.
pub fn hostname(kernel: &Kernel) -> String {
    kernel.hostname().unwrap_or_else(|_| "?".into())
}

/// A JSON document with the members that every document begins with.
#[must_use]
pub fn document(members: Map<String, Json>) -> Json {
    let mut object = Map::new();
    object.insert("schema_version".into(), SCHEMA_VERSION.into());
    object.insert("timestamp".into(), timestamp().into());
    object.insert("hostname".into(), hostname(&Kernel::new()).into());
    let page_size = cachewise_sys::page_size().get();
    object.insert("page_size_bytes".into(), page_size.into());
    object.extend(members);
    Json::Object(object)
}
