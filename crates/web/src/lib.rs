//! Metrics, a web page and JSON over HTTP.

#![forbid(unsafe_code)]
