//! The outcome of a request: gRPC's canonical codes, with a sentence for people.

use dataplane::device::DeviceError;
use proto::p4::v1;

/// A canonical code (google.rpc.Code).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Code {
    Ok = 0,
    Unknown = 2,
    InvalidArgument = 3,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
}

/// Why a request, or one update of a batch, failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code:?})")]
pub struct Status {
    /// The canonical code; never [`Code::Ok`].
    pub code: Code,
    /// A sentence for people.
    pub message: String,
}

impl Status {
    /// A status with a message.
    pub fn new(code: Code, message: impl Into<String>) -> Status {
        Status { code, message: message.into() }
    }

    /// A request that does not fit the program or the specification.
    pub fn invalid(message: impl Into<String>) -> Status {
        Status::new(Code::InvalidArgument, message)
    }

    /// A request about something that does not exist.
    pub fn not_found(message: impl Into<String>) -> Status {
        Status::new(Code::NotFound, message)
    }

    /// A request for what Strait does not have.
    pub fn unimplemented(message: impl Into<String>) -> Status {
        Status::new(Code::Unimplemented, message)
    }

    /// The same code, with words in front of the message.
    pub fn at(self, place: impl std::fmt::Display) -> Status {
        Status { message: format!("{place}: {}", self.message), ..self }
    }
}

impl From<DeviceError> for Status {
    fn from(error: DeviceError) -> Status {
        let (code, message) = match error {
            DeviceError::InvalidArgument(text) => (Code::InvalidArgument, text),
            DeviceError::NotFound(text) => (Code::NotFound, text),
            DeviceError::AlreadyExists(text) => (Code::AlreadyExists, text),
            DeviceError::PermissionDenied(text) => (Code::PermissionDenied, text),
            DeviceError::ResourceExhausted(text) => (Code::ResourceExhausted, text),
            DeviceError::FailedPrecondition(text) => (Code::FailedPrecondition, text),
            DeviceError::Unimplemented(text) => (Code::Unimplemented, text),
            DeviceError::Internal(text) => (Code::Internal, text),
        };
        Status { code, message }
    }
}

/// The error of one request of a batch, or success (P4Runtime specification, section 10).
pub fn detail(outcome: &Result<(), Status>) -> v1::Error {
    match outcome {
        Ok(()) => v1::Error::default(),
        Err(status) => v1::Error {
            canonical_code: status.code as i32,
            message: status.message.clone(),
            space: "strait".to_string(),
            code: status.code as i32,
            details: None,
        },
    }
}
