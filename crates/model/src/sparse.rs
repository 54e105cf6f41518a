//! Groups of numbers that most rows do not have.

use std::fmt::{self, Debug, Formatter};
use std::ops::{Deref, DerefMut};

/// A group of numbers that takes no memory if none of it applies: a list of thousands of files
/// holds no numbers of the machine. Reads as the whole group; the first change allocates it.
#[derive(Clone)]
pub struct SparseFields<T>(Option<Box<T>>);

/// A group that may be absent.
pub trait FieldGroup: Clone + PartialEq + Debug + 'static {
    /// The group with all values missing.
    fn absent() -> &'static Self;
}

impl<T> Default for SparseFields<T> {
    fn default() -> Self {
        SparseFields(None)
    }
}

impl<T> From<T> for SparseFields<T> {
    fn from(group: T) -> Self {
        SparseFields(Some(Box::new(group)))
    }
}

impl<T: FieldGroup> Deref for SparseFields<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::absent())
    }
}

impl<T: FieldGroup> DerefMut for SparseFields<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_with(|| Box::new(T::absent().clone()))
    }
}

impl<T: FieldGroup> PartialEq for SparseFields<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.0.is_none() && other.0.is_none()) || **self == **other
    }
}

impl<T: FieldGroup> Debug for SparseFields<T> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        T::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Measured, NOT_APPLICABLE, System};

    #[test]
    fn absent_group_reads_as_missing_without_allocation() {
        let mut group = SparseFields::<System>::default();
        assert_eq!(
            size_of_val(&group),
            size_of::<usize>(),
            "no more than a place for it"
        );
        assert_eq!(
            group.cached_bytes.missing(),
            Some(NOT_APPLICABLE),
            "no cache rather than an empty one"
        );
        assert_eq!(
            group,
            SparseFields::from(System::default()),
            "the same, said at length"
        );
        group.cached_bytes = Measured::Exact(7);
        assert_eq!(
            group.cached_bytes.known(),
            Some(7),
            "what is written is there"
        );
        assert_eq!(
            group.buffers_bytes.missing(),
            Some(NOT_APPLICABLE),
            "and nothing else is"
        );
        assert_ne!(group, SparseFields::default(), "nor is it as before");
    }
}
