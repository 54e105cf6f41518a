//! Gaps of a recording as text for people.

use cachewise_model::Gap;

use crate::number::length;

/// Time and kind of a gap, for people.
#[must_use]
pub fn gap_text(gap: &Gap) -> String {
    let kind = gap.kind.meaning();
    match (
        gap.begin.as_ref().known(),
        gap.end.as_ref().known(),
        gap.length.known(),
    ) {
        (Some(begin), Some(end), Some(time)) => {
            format!("{begin} to {end}, {}: {kind}", length(time))
        }
        (Some(begin), _, _) => format!("after {begin}, for an unknown time: {kind}"),
        (_, Some(end), _) => format!("before {end}, since an unknown time: {kind}"),
        (None, None, _) => format!("at an unknown time: {kind}"),
    }
}
