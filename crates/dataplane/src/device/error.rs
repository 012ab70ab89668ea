//! Why a device refuses something. The kinds are those of P4Runtime, which uses gRPC's codes.

use abi::manifest::EntryError;
use thiserror::Error;

use crate::TableError;

/// Why a device refused an update or a query. Each variant has a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeviceError {
    /// It does not fit the program: a number that the manifest does not have, a wrong width, a wrong kind of match.
    #[error("{0} (INVALID_ARGUMENT)")]
    InvalidArgument(String),
    /// The entity does not exist, or one that it refers to.
    #[error("{0} (NOT_FOUND)")]
    NotFound(String),
    /// The entity exists already.
    #[error("{0} (ALREADY_EXISTS)")]
    AlreadyExists(String),
    /// The entity is const.
    #[error("{0} (PERMISSION_DENIED)")]
    PermissionDenied(String),
    /// There is no room.
    #[error("{0} (RESOURCE_EXHAUSTED)")]
    ResourceExhausted(String),
    /// Others still refer to the entity.
    #[error("{0} (FAILED_PRECONDITION)")]
    FailedPrecondition(String),
    /// This target cannot do it.
    #[error("{0} (UNIMPLEMENTED)")]
    Unimplemented(String),
    /// The environment failed, such as the kernel.
    #[error("{0} (INTERNAL)")]
    Internal(String),
}

/// Why a batch was refused. Nothing of it was applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("update {index}: {error}")]
pub struct WriteError {
    /// The index of the update that was refused.
    pub index: usize,
    /// Why it was refused. The updates before it were undone.
    #[source]
    pub error: DeviceError,
}

impl From<EntryError> for DeviceError {
    fn from(error: EntryError) -> DeviceError {
        let text = error.to_string();
        match error {
            EntryError::ConstEntries(_) | EntryError::ConstDefault(_) => DeviceError::PermissionDenied(text),
            EntryError::NoTable(_)
            | EntryError::NoAction { .. }
            | EntryError::ActionPlace { .. }
            | EntryError::Count { .. }
            | EntryError::Key { .. }
            | EntryError::Arg { .. } => DeviceError::InvalidArgument(text),
        }
    }
}

impl From<TableError> for DeviceError {
    fn from(error: TableError) -> DeviceError {
        let text = error.to_string();
        match error {
            TableError::Entry(error) => error.into(),
            TableError::Exists(_) => DeviceError::AlreadyExists(text),
            TableError::NotFound(_) => DeviceError::NotFound(text),
            TableError::Full { .. } => DeviceError::ResourceExhausted(text),
        }
    }
}
