//! Text that is made safe: names come from outside.

use std::borrow::Cow;

/// A text between tags, or in a quoted attribute.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    if !text.contains(['<', '>', '&', '"', '\'']) && !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            character if character.is_control() => safe.extend(character.escape_default()),
            character => safe.push(character),
        }
    }
    Cow::Owned(safe)
}

/// JSON in a script element: what could end the element is written otherwise.
pub(super) fn json(json: &serde_json::Value) -> String {
    json.to_string().replace('<', "\\u003c")
}
