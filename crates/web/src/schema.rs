//! The OpenAPI 3.1 description of the JSON, with rows from the table of fields.

use cachewise_model::{EvictionCause, FIELDS, Field, Kind, SCHEMA_VERSION, Unit};
use serde_json::{Map, Value as Json, json};

use crate::http::query::{MOST_ROWS, MOST_SECONDS};

/// The description of `/api/v1`.
#[must_use]
pub fn openapi() -> Json {
    let rows = [
        ("processes", "Processes that have used the page cache"),
        (
            "files",
            "Files that were used; names that may not be shown are null",
        ),
        ("cgroups", "Control groups"),
        ("devices", "Storage devices, and file systems without one"),
    ];
    let mut paths = Map::new();
    for (name, what) in rows {
        let members = json!({
            "elapsed_seconds": number("Length of the time over which the rows are summed"),
            "count": or_null(integer("Number of rows, without the limit; null if unknown")),
            name: or_null(array("Row")),
        });
        let path = get(
            &format!("{what}, the greatest first"),
            json!([
                query(
                    "seconds",
                    &format!(
                        "Length of the time in seconds, at most {MOST_SECONDS}; the default is the last interval"
                    ),
                    "number"
                ),
                query("sort", "Field to sort rows by, largest first", "string"),
                query(
                    "limit",
                    &format!("Number of rows, at most {MOST_ROWS}"),
                    "integer"
                ),
                query(
                    "format",
                    "json, or csv for a file with every field",
                    "string"
                ),
            ]),
            document(members),
        );
        paths.insert(format!("/api/v1/{name}"), path);
    }
    let seconds = query(
        "seconds",
        &format!(
            "Length of the time in seconds, at most {MOST_SECONDS}; the default is the last interval"
        ),
        "number",
    );
    let seconds_of_tables = seconds.clone();
    let further = [
        (
            "/api/v1/machine",
            "The machine and this server",
            json!([]),
            json!({
                "kernel_release": text("The kernel's release"),
                "version": text("The program's version"),
                "started": text("Start of the watch, RFC 3339"),
                "interval_seconds": number("Time between ticks"),
                "backend": {
                    "type": "object",
                    "required": ["name", "exact", "exactness", "notes"],
                    "properties": {
                        "name": text("Back-end that counts"),
                        "exact": { "type": "boolean", "description": "Whether its counts are exact to the page" },
                        "exactness": {
                            "enum": ["exact", "incomplete", "estimated"],
                            "description": "Accuracy of the counts since the start: incomplete if events were lost",
                        },
                        "notes": { "type": "array", "items": { "type": "string" } },
                        "kernel_memory_bytes": {
                            "type": ["integer", "null"],
                            "minimum": 0,
                            "description": "Kernel memory of the maps and programs that count, without the storage of each task that uses files",
                        },
                        "reasons": reasons(),
                        "reason_codes": reason_codes(),
                    },
                },
                "lost": array("Lost"),
                "collectors": { "type": "array", "items": { "type": "string" } },
                "names_all": { "type": "boolean", "description": "Whether all file names are shown" },
            }),
        ),
        (
            "/api/v1/stretch",
            "Counts of the machine in the last interval, or in a longer time",
            json!([seconds.clone()]),
            json!({ "stretch": reference("Row"), "lost": array("Lost") }),
        ),
        (
            "/api/v1/totals",
            "Present counts of the machine since the start, as in the metrics",
            json!([]),
            json!({
                "started": text("Start of the watch, RFC 3339"),
                "totals": reference("Row"),
                "lost": array("Lost"),
            }),
        ),
        (
            "/api/v1/history",
            "Points of the charts so far: by the interval for a minute, by the second for five, by ten seconds for an hour",
            json!([query(
                "seconds",
                "Length of the time in seconds, at most 3600, which is the default",
                "number"
            )]),
            json!({
                "started": text("Start of the watch, RFC 3339: there are no earlier points"),
                "interval_seconds": number("Time between ticks"),
                "longest_point_seconds": number("Length of the longest point; a much longer one means that the machine was suspended or the server stood still"),
                "points": array("Row"),
            }),
        ),
        (
            "/api/v1/evictions",
            "Evicted pages by file, cause and the process that evicted them, the most first",
            json!([
                seconds,
                query(
                    "limit",
                    &format!("Number of rows, at most {MOST_ROWS}"),
                    "integer"
                ),
            ]),
            json!({
                "elapsed_seconds": number("Length of the time over which the rows are summed"),
                "count": or_null(integer("Number of rows, without the limit; null if unknown")),
                "evictions": or_null(array("Eviction")),
            }),
        ),
        (
            "/api/v1/subject",
            "One process, command, file, control group or device in the last minute: its files, its readers, its past and its evicted pages; of a \
             process those that it evicted, summed up by command",
            json!([query(
                "of",
                "The subject: process:PID, process:PID:STARTED, command:NAME, file:PATH, inode:MAJOR:MINOR:INODE, \
                 cgroup:PATH or device:MAJOR:MINOR, as rows and events name it; the default is cgroup:/",
                "string"
            )]),
            json!({
                "subject": text("The subject"),
                "row": { "type": ["object", "null"], "description": "Its own row; null if it did nothing" },
                "processes": or_null(array("PageRow")),
                "files": or_null(array("PageRow")),
                "evictions": or_null(array("Eviction")),
                "points": or_null(array("Row")),
            }),
        ),
        (
            "/api/v1/tables",
            "The tables of the page over a time: the greatest rows, processes that have ended summed up by command",
            json!([seconds_of_tables]),
            json!({
                "elapsed_seconds": number("Length of the time over which the rows are summed"),
                "processes": or_null(array("PageRow")),
                "cgroups": or_null(array("PageRow")),
                "files": or_null(array("PageRow")),
                "devices": or_null(array("PageRow")),
            }),
        ),
        (
            "/api/v1/findings",
            "Findings of the last minute, each with the next step",
            json!([]),
            json!({
                "headline": { "type": "string", "description": "The findings in one sentence: how many problems and notes, and their subjects" },
                "findings": or_null(array("Finding")),
                "unchecked_rules": {
                    "type": "array",
                    "items": { "type": "string" },
                    "description": "Rules that could not look, as what they need is not counted here: where nothing \
                        was found and there are such, findings is null",
                },
            }),
        ),
        (
            "/api/v1/cache",
            "Resident bytes of a directory, its members and theirs, largest first",
            json!([
                query(
                    "path",
                    "Absolute path of the directory; the default is the root",
                    "string"
                ),
                query(
                    "limit",
                    "Number of members; one member of kind `others` sums the rest",
                    "integer"
                ),
            ]),
            json!({
                "census_seconds": number("Time that the census took"),
                "notes": { "type": "array", "items": { "type": "string" } },
                "cache": reference("Directory"),
            }),
        ),
    ];
    for (path, what, parameters, members) in further {
        paths.insert(path.into(), get(what, parameters, document(members)));
    }
    paths.insert(
        "/api/v1/events".into(),
        json!({ "get": {
            "summary": "Events: `tick` with a point of the charts, tables, findings and what was lost since the start; `problem` with an error",
            "responses": {
                "200": {
                    "description": "A stream of events",
                    "content": { "text/event-stream": { "schema": { "type": "string" } } },
                },
                "401": refused("A token is needed"),
                "503": refused("Too many streams are open"),
            },
        } }),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "cachewise",
            "description": "How a machine uses its page cache. Numbers that are not known are null, and `reason_codes` and `reasons` \
                say why; estimates are listed in `estimated`. Counters are those of the time that the row is about.",
            "version": format!("v1, schema {SCHEMA_VERSION}"),
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
        },
        "security": [{ "bearer": [] }, { "basic": [] }, { "cookie": [] }, {}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer", "description": "The token; a server on a Unix socket may need none" },
                "basic": { "type": "http", "scheme": "basic", "description": "The token as the password, with any user name" },
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "cachewise-10029",
                    "description": "As POST /login with the token sets it, by the server's port; valid until the server ends",
                },
            },
            "schemas": schemas(),
        },
    })
}

fn schemas() -> Json {
    let mut row: Map<String, Json> = FIELDS
        .iter()
        .filter(|field| !field.is_of_measurement_only() && !field.is_of_sizing_only())
        .map(|field| (field.id.to_owned(), of_field(field)))
        .collect();
    let names = json!({ "type": "array", "items": { "type": "string" } });
    let causes: Vec<&str> = EvictionCause::ALL.iter().map(|cause| cause.id()).collect();
    row.insert("estimated".into(), names.clone());
    row.insert("escaped".into(), names);
    row.insert("reasons".into(), reasons());
    row.insert("reason_codes".into(), reason_codes());
    let mut page_row = row.clone();
    page_row.insert("subject".into(), text("Its name at /api/v1/subject"));
    page_row.insert(
        "members".into(),
        integer("Number of processes that it sums up"),
    );
    json!({
        "PageRow": {
            "type": "object",
            "description": "A row of the page: the columns that it shows",
            "properties": page_row,
            "additionalProperties": false,
        },
        "Row": {
            "type": "object",
            "description": "Measured values of one subject; its kind determines the fields",
            "properties": row,
            "additionalProperties": false,
        },
        "Lost": {
            "type": "object",
            "required": ["id", "count", "meaning"],
            "properties": {
                "id": text("Kind of loss"),
                "count": integer("Number of times"),
                "meaning": text("Effect on the counts"),
            },
        },
        "Finding": {
            "type": "object",
            "required": ["id", "severity", "title", "figures", "next_step"],
            "properties": {
                "id": text("The rule"),
                "severity": { "enum": ["warn", "info"] },
                "title": text("What is wrong"),
                "subject": { "type": ["string", "null"], "description": "The file, control group or device that it is about" },
                "subject_kind": { "enum": ["machine", "file", "group", "process", "device"] },
                "subject_name": { "type": ["string", "null"], "description": "The name that people use for it: a label, unit, container or pod" },
                "pid": { "type": ["integer", "null"], "description": "The process that it is about" },
                "rules": { "type": "array", "items": { "type": "string" }, "description": "All rules with evidence of the cause" },
                "cause": text("What is wrong"),
                "evidence": { "type": "object", "description": "Figures" },
                "also": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["id", "cause", "subject"],
                        "properties": {
                            "id": text("The rule"),
                            "cause": text("Its sentence"),
                            "subject": { "type": ["string", "null"] },
                        },
                    },
                    "description": "Further evidence of the same cause",
                },
                "cost_bytes": { "type": ["integer", "null"], "description": "Bytes fetched from devices for the subject" },
                "cost_seconds": { "type": ["number", "null"], "description": "Seconds that tasks waited for storage and memory on the subject" },
                "fix": text("The command or change of code that fixes it"),
                "verify": text("How to verify the fix"),
                "page": text("Address of the page that explains it"),
                "figures": { "type": "object", "description": "Former name of evidence" },
                "next_step": text("Former name of fix"),
            },
        },
        "Eviction": {
            "type": "object",
            "required": ["cause", "evicted_pages", "culprit_uses_file", "charged_cgroup", "culprit"],
            "properties": {
                "cause": { "enum": causes },
                "evicted_pages": integer("Evicted pages"),
                "culprit_uses_file": { "type": "boolean", "description": "Whether the process that evicted is known to use the file itself" },
                "charged_cgroup": { "type": ["string", "null"], "description": "Control group that the pages were charged to" },
                "path": { "type": ["string", "null"], "description": "The file" },
                "device": { "type": ["string", "null"], "description": "Its device" },
                "inode": { "type": ["integer", "null"], "description": "Its inode" },
                "culprit": {
                    "type": ["object", "null"],
                    "description": "The process that evicted the pages; null for kernel threads",
                    "properties": {
                        "pid": { "type": ["integer", "null"] },
                        "command": { "type": ["string", "null"], "description": "The program's name" },
                        "cgroup": { "type": ["string", "null"] },
                        "started": integer("Start in nanoseconds since boot"),
                        "reasons": reasons(),
                        "reason_codes": reason_codes(),
                    },
                },
                "reasons": reasons(),
                "reason_codes": reason_codes(),
                "escaped": { "type": "array", "items": { "type": "string" } },
                "estimated": { "type": "array", "items": { "type": "string" } },
            },
        },
        "Directory": {
            "type": "object",
            "required": ["name", "path", "kind", "files", "resident_bytes", "size_bytes"],
            "properties": {
                "name": text("Its name, escaped where it is not printable"),
                "path": text("Its path"),
                "kind": { "enum": ["directory", "file", "others"] },
                "files": integer("Files in and below it"),
                "resident_bytes": integer("Resident bytes of these files"),
                "size_bytes": integer("Sum of their sizes"),
                "resident_ratio": { "type": ["number", "null"], "description": "Resident share" },
                "children": array("Directory"),
            },
        },
        "Error": {
            "type": "object",
            "required": ["error"],
            "properties": { "error": text("What is wrong, and what to do") },
        },
    })
}

fn of_field(field: &Field) -> Json {
    let kind = match field.unit {
        Unit::Count | Unit::Pages | Unit::Bytes | Unit::Id => "integer",
        Unit::Seconds | Unit::Ratio | Unit::Factor => "number",
        Unit::Text | Unit::Time => "string",
    };
    let mut json = json!({ "type": [kind, "null"], "description": field.help });
    if field.kind != Kind::Label && kind == "integer" {
        json["minimum"] = 0.into();
    }
    json
}

fn document(members: Json) -> Json {
    let mut properties = json!({
        "schema_version": { "const": SCHEMA_VERSION },
        "timestamp": text("RFC 3339"),
        "hostname": text("The machine's name"),
        "page_size_bytes": integer("Size of a page"),
    });
    if let (Json::Object(properties), Json::Object(members)) = (&mut properties, members) {
        properties.extend(members);
    }
    let required: Json = properties
        .as_object()
        .map(|members| members.keys().cloned().collect())
        .unwrap_or_default();
    properties["reasons"] = reasons();
    properties["reason_codes"] = reason_codes();
    json!({ "type": "object", "required": required, "properties": properties })
}

fn get(what: &str, parameters: Json, schema: Json) -> Json {
    json!({ "get": {
        "summary": what,
        "parameters": parameters,
        "responses": {
            "200": {
                "description": what,
                "content": { "application/json": { "schema": schema } },
            },
            "400": refused("A parameter is wrong"),
            "401": refused("A token is needed"),
            "503": refused("Not now: too many requests, or the kernel does not provide it; `Retry-After` has the time until a retry"),
        },
    } })
}

fn refused(what: &str) -> Json {
    json!({
        "description": what,
        "content": { "application/json": { "schema": reference("Error") } },
    })
}

fn query(name: &str, what: &str, kind: &str) -> Json {
    json!({ "name": name, "in": "query", "description": what, "schema": { "type": kind } })
}

fn reference(name: &str) -> Json {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn array(name: &str) -> Json {
    json!({ "type": "array", "items": reference(name) })
}

/// The same schema, or null where the value is unknown.
fn or_null(mut schema: Json) -> Json {
    schema["type"] = json!([schema["type"], "null"]);
    schema
}

/// Why members are null, in words.
fn reasons() -> Json {
    json!({ "type": "object", "additionalProperties": { "type": "string" } })
}

/// Why members are null, for programs.
fn reason_codes() -> Json {
    json!({
        "type": "object",
        "description": "Codes of docs/reasons.md; `reasons` has the same in words",
        "additionalProperties": { "type": "string", "pattern": "^[a-z0-9_]+$" },
    })
}

fn text(what: &str) -> Json {
    json!({ "type": "string", "description": what })
}

fn number(what: &str) -> Json {
    json!({ "type": "number", "description": what })
}

fn integer(what: &str) -> Json {
    json!({ "type": "integer", "minimum": 0, "description": what })
}
