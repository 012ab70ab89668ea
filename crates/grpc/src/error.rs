//! Statuses as gRPC transports them (P4Runtime specification, sections 10 and 12.3).

use p4runtime::server::Failure;
use p4runtime::{Code, Outcomes, Status, detail};
use prost::Message as _;
use proto::google::rpc;
use proto::p4::v1;
use tonic::metadata::MetadataMap;

use crate::limits::DETAILS;

/// A status of a whole request.
pub fn status(status: Status) -> tonic::Status {
    tonic::Status::new(tonic::Code::from(status.code as i32), status.message)
}

/// The status of a request that failed.
pub fn failure(failure: Failure) -> tonic::Status {
    match failure {
        Failure::Whole(whole) => status(whole),
        Failure::Parts(outcomes) => parts(&outcomes),
    }
}

/// `UNKNOWN`, with an outcome for each part of the batch. The parts of a large batch are not in the details, because clients would refuse them: first
/// their messages are left out, then the parts themselves. The message has the first errors in any case.
fn parts(outcomes: &Outcomes) -> tonic::Status {
    let message = summary(outcomes);
    let with = |words: bool| {
        let one = |outcome: &Result<(), Status>| {
            let mut error = detail(outcome);
            if !words {
                (error.message, error.space, error.code) = (String::new(), String::new(), 0);
            }
            any(&error)
        };
        let details = outcomes.iter().map(one).collect();
        rpc::Status { code: Code::Unknown as i32, message: message.clone(), details }.encode_to_vec()
    };
    let details = [true, false].into_iter().map(with).find(|details| details.len() <= DETAILS);
    let none = || rpc::Status { code: Code::Unknown as i32, message: message.clone(), details: Vec::new() };
    let details = details.unwrap_or_else(|| none().encode_to_vec());
    tonic::Status::with_details_and_metadata(
        tonic::Code::Unknown,
        message,
        details.into(),
        MetadataMap::new(),
    )
}

fn any(error: &v1::Error) -> prost_types::Any {
    prost_types::Any { type_url: proto::type_url("p4.v1.Error"), value: error.encode_to_vec() }
}

/// The first errors of a batch, in words.
fn summary(outcomes: &Outcomes) -> String {
    const SHOWN: usize = 5;
    let failed =
        || outcomes.iter().enumerate().filter_map(|(at, outcome)| Some((at, outcome.as_ref().err()?)));
    // Those that were only not applied because of another one say nothing new.
    let telling = failed().filter(|(_, status)| status.code != Code::Aborted);
    let mut text = format!("{} of {} failed", failed().count(), outcomes.len());
    for (at, status) in telling.take(SHOWN) {
        let words: String = status.message.chars().take(200).collect();
        text.push_str(&format!("; {at}: {words} ({:?})", status.code));
    }
    text
}
