//! Answers of reads that their clients have not taken yet. An answer is made at once, while the device is held, and waits in pieces: its beginning in memory,
//! the rest in a file that has no name. So no client that reads slowly keeps the device, a turn, or much memory.

use std::fs::File;
use std::io::{Error, Write as _};
use std::os::unix::fs::FileExt as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use prost::Message as _;
use proto::p4::v1::{Entity, ReadResponse, entity};
use tokio_stream::Stream;
use tonic::Status;

use crate::limits;

/// The bytes that are written to a file at a time.
const WRITTEN: usize = 256 << 10;

/// The bytes that wait, in memory and in files.
#[derive(Debug, Default)]
pub struct AllAnswers {
    memory: AtomicUsize,
    files: AtomicUsize,
}

/// An answer that is made.
pub struct Making {
    entities: Vec<Entity>,
    /// The bytes of the entities.
    bytes: usize,
    answer: Answer,
    failed: Option<Status>,
}

/// The answer of one read, as far as it has been made: in memory, and behind that in a file without a name.
struct Answer {
    all: Arc<AllAnswers>,
    /// The lengths of the pieces.
    lengths: Vec<u32>,
    /// What is not in the file yet, or all of it.
    memory: Vec<u8>,
    /// What the memory counts as.
    counted: usize,
    file: Option<File>,
    in_file: usize,
}

impl Making {
    /// An answer without entities.
    pub fn of(all: &Arc<AllAnswers>) -> Making {
        let answer = Answer {
            all: all.clone(),
            lengths: Vec::new(),
            memory: Vec::new(),
            counted: 0,
            file: None,
            in_file: 0,
        };
        Making { entities: Vec::new(), bytes: 0, answer, failed: None }
    }

    /// Adds an entity.
    pub fn add(&mut self, entity: entity::Entity) {
        if self.failed.is_some() {
            return;
        }
        let entity = Entity { entity: Some(entity) };
        self.bytes += entity.encoded_len();
        self.entities.push(entity);
        let (most, bytes) = limits::ENTITIES;
        if self.entities.len() >= most || self.bytes >= bytes {
            self.piece();
        }
    }

    fn piece(&mut self) {
        let piece = ReadResponse { entities: std::mem::take(&mut self.entities) };
        self.bytes = 0;
        self.failed = self.answer.add(&piece).err();
    }

    /// The answer as a stream, which ends with a status if there is one.
    pub fn finish(mut self, failure: Option<Status>) -> Taker {
        if !self.entities.is_empty() && self.failed.is_none() {
            self.piece();
        }
        if self.failed.is_none() && self.answer.file.is_some() {
            self.failed = self.answer.write().err();
        }
        let end = self.failed.or(failure);
        let state = State { answer: Some(self.answer), end, next: 0, at: 0, moved: Instant::now() };
        Taker { state: Arc::new(Mutex::new(state)) }
    }
}

impl Answer {
    fn add(&mut self, piece: &ReadResponse) -> Result<(), Status> {
        let length = piece.encoded_len();
        self.lengths.push(u32::try_from(length).map_err(|_| no_room())?);
        let mut fits = self.file.is_none() && self.memory.len() + length <= limits::ANSWER;
        if fits {
            self.counted += length;
            fits = self.all.memory.fetch_add(length, Ordering::Relaxed) + length <= limits::ANSWERS;
        }
        self.memory.reserve(length);
        let _ = piece.encode(&mut self.memory);
        if !fits && (self.file.is_none() || self.memory.len() >= WRITTEN) {
            self.write()?;
        }
        Ok(())
    }

    /// Moves what is in memory to the file.
    fn write(&mut self) -> Result<(), Status> {
        let used = self.all.files.fetch_add(self.memory.len(), Ordering::Relaxed);
        self.in_file += self.memory.len();
        if used + self.memory.len() > limits::ANSWERS_IN_FILES {
            return Err(no_room());
        }
        let written = (|| {
            let file = match self.file.take() {
                Some(file) => self.file.insert(file),
                None => self.file.insert(tempfile::tempfile()?),
            };
            file.write_all(&self.memory)
        })();
        self.memory = Vec::new();
        self.all.memory.fetch_sub(std::mem::take(&mut self.counted), Ordering::Relaxed);
        written.map_err(in_file)
    }

    /// A piece with its place.
    fn piece(&self, at: u64, length: usize) -> Result<ReadResponse, Status> {
        let decoded = match &self.file {
            None => {
                let from = at as usize;
                ReadResponse::decode(self.memory.get(from..from + length).unwrap_or_default())
            }
            Some(file) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, at).map_err(in_file)?;
                ReadResponse::decode(bytes.as_slice())
            }
        };
        decoded.map_err(|why| Status::internal(why.to_string()))
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.all.memory.fetch_sub(self.counted, Ordering::Relaxed);
        self.all.files.fetch_sub(self.in_file, Ordering::Relaxed);
    }
}

fn no_room() -> Status {
    Status::resource_exhausted(
        "clients have not taken the answers of their reads: there is no room for another",
    )
}

fn in_file(why: Error) -> Status {
    Status::resource_exhausted(format!("the answer does not fit into memory, and not into a file: {why}"))
}

/// What a client takes an answer from. One that stalls loses it.
pub struct Taker {
    state: Arc<Mutex<State>>,
}

struct State {
    answer: Option<Answer>,
    /// The status of the end, if it is an error.
    end: Option<Status>,
    /// The next piece.
    next: usize,
    /// Where it begins.
    at: u64,
    /// When the last one was taken.
    moved: Instant,
}

impl Taker {
    /// Looks from time to time whether the client takes the answer.
    pub fn watched(self) -> Taker {
        let state = Arc::downgrade(&self.state);
        if lock(&self.state).answer.as_ref().is_some_and(|answer| !answer.lengths.is_empty()) {
            tokio::spawn(async move {
                let look = limits::STALL / 4;
                loop {
                    tokio::time::sleep(look).await;
                    let Some(state) = state.upgrade() else { return };
                    if lock(&state).end_if_stalled(limits::STALL) {
                        return;
                    }
                }
            });
        }
        self
    }
}

impl State {
    fn end_if_stalled(&mut self, time: Duration) -> bool {
        if self.moved.elapsed() > time && self.answer.take().is_some() {
            self.end =
                Some(Status::deadline_exceeded("the client has taken nothing of the answer for too long"));
        }
        self.answer.is_none()
    }

    fn next(&mut self) -> Option<Result<ReadResponse, Status>> {
        self.moved = Instant::now();
        let Some(length) = self.answer.as_ref().and_then(|answer| answer.lengths.get(self.next).copied())
        else {
            self.answer = None;
            return self.end.take().map(Err);
        };
        let piece = self.answer.as_ref().map(|answer| answer.piece(self.at, length as usize));
        self.next += 1;
        self.at += u64::from(length);
        piece
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stream for Taker {
    type Item = Result<ReadResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(lock(&self.state).next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::p4::v1::TableEntry;

    fn entry(n: u64) -> entity::Entity {
        let metadata = vec![n as u8; 100];
        let idle_timeout_ns = n as i64;
        entity::Entity::TableEntry(TableEntry { idle_timeout_ns, metadata, ..TableEntry::default() })
    }

    fn numbers(taker: &Taker) -> (Vec<u64>, Option<Status>) {
        let mut all = Vec::new();
        loop {
            match lock(&taker.state).next() {
                None => return (all, None),
                Some(Err(status)) => return (all, Some(status)),
                Some(Ok(piece)) => {
                    let number = |entity: Entity| match entity.entity {
                        Some(entity::Entity::TableEntry(entry)) => Some(entry.idle_timeout_ns as u64),
                        _ => None,
                    };
                    all.extend(piece.entities.into_iter().filter_map(number));
                }
            }
        }
    }

    #[test]
    fn answers_come_back_whole_and_hold_little_memory() {
        let all = Arc::new(AllAnswers::default());
        for count in [0, 1, 100, 1000, 20_000] {
            let mut making = Making::of(&all);
            (0..count).for_each(|n| making.add(entry(n)));
            let taker = making.finish(None);
            assert!(all.memory.load(Ordering::Relaxed) <= limits::ANSWER);
            assert_eq!(all.files.load(Ordering::Relaxed) > 0, count > 500);
            let (found, status) = numbers(&taker);
            assert!(status.is_none() && found == (0..count).collect::<Vec<_>>());
            assert_eq!(all.memory.load(Ordering::Relaxed) + all.files.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn a_reader_that_stalls_loses_its_answer() {
        let all = Arc::new(AllAnswers::default());
        let mut making = Making::of(&all);
        (0..20_000).for_each(|n| making.add(entry(n)));
        let taker = making.finish(None);
        assert!(lock(&taker.state).next().is_some_and(|piece| piece.is_ok()));
        assert!(!lock(&taker.state).end_if_stalled(Duration::from_secs(60)));
        std::thread::sleep(Duration::from_millis(5));
        assert!(lock(&taker.state).end_if_stalled(Duration::from_millis(1)));
        assert_eq!(all.files.load(Ordering::Relaxed), 0, "nothing of it is kept");
        let (found, status) = numbers(&taker);
        assert!(found.is_empty());
        assert_eq!(status.map(|status| status.code()), Some(tonic::Code::DeadlineExceeded));
    }
}
