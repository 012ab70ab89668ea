//! P4Runtime clients: `strait table`, `counter`, `meter`, `register`, `group`, `digest`, `packet`, `pipeline`, against any server.

pub mod cells;
pub mod controller;
pub mod groups;
pub mod pipeline;
pub mod stream;
pub mod table;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use grpc::client::{Client, Options};
use proto::p4::config::v1::P4Info;
use proto::p4::v1::{self, entity, update};

use crate::cli::clients::Server;
use crate::frontend::contents;

/// A connection, and the program's P4Info.
struct Session {
    client: Client,
    info: P4Info,
    json: bool,
}

/// The port of P4Runtime.
const TCP: &str = "127.0.0.1:9559";

/// Where the server is: where the options say, or the Unix socket of the device if somebody listens there. A certificate is for TCP.
fn address(server: &Server) -> String {
    if let Some(address) = &server.grpc {
        return address.clone();
    }
    let places = io::served::places(server.device);
    let served = places.iter().find(|path| server.ca.is_none() && io::served::is_served(path));
    served.map_or_else(|| TCP.to_string(), |path| format!("unix:{}", path.display()))
}

/// Connects to a server.
fn connect(server: &Server) -> anyhow::Result<Client> {
    let identity = match (&server.cert, &server.key) {
        (Some(cert), Some(key)) => Some((contents(cert)?, contents(key)?)),
        _ => None,
    };
    let options = Options {
        address: address(server),
        device: server.device,
        election: server.election_id,
        role: server.role.clone(),
        authorities: server.ca.as_deref().map(contents).transpose()?,
        identity,
    };
    Ok(Client::connect(&options)?)
}

/// The P4Info of a server's program, if it answers.
pub fn info(server: &Server) -> Option<P4Info> {
    connect(server).ok()?.info().ok()
}

impl Session {
    fn open(server: &Server) -> anyhow::Result<Session> {
        let mut client = connect(server)?;
        let info = client.info()?;
        Ok(Session { client, info, json: server.json })
    }

    fn read(&mut self, entity: entity::Entity) -> anyhow::Result<Vec<entity::Entity>> {
        let mut all = Vec::new();
        self.client.read(vec![entity], |entity| all.push(entity))?;
        Ok(all)
    }

    fn write(&mut self, kind: update::Type, entity: entity::Entity) -> anyhow::Result<()> {
        Ok(self.client.write(vec![make(kind, entity)])?)
    }
}

/// The kind of an update that writes an entity, whether it exists or not.
fn put(exists: bool) -> update::Type {
    if exists { update::Type::Modify } else { update::Type::Insert }
}

fn make(kind: update::Type, entity: entity::Entity) -> v1::Update {
    v1::Update { r#type: kind.into(), entity: Some(v1::Entity { entity: Some(entity) }) }
}

/// The words of a command line. One argument may have several words, so that a line may be quoted.
fn words(given: &[String]) -> Vec<&str> {
    given.iter().flat_map(|word| word.split_whitespace()).collect()
}

fn mistake(why: String) -> anyhow::Error {
    anyhow!(why)
}

/// Runs `look` at intervals until it fails or the command is interrupted. It gets the seconds since the last time.
fn watch(interval: f64, mut look: impl FnMut(f64) -> anyhow::Result<()>) -> anyhow::Result<()> {
    static STOP: AtomicBool = AtomicBool::new(false);
    io::signals::at_end(|| STOP.store(true, Ordering::Release))?;
    let interval = Duration::try_from_secs_f64(interval)
        .ok()
        .filter(|i| !i.is_zero())
        .context("--interval is above 0")?;
    let mut last = Instant::now();
    look(interval.as_secs_f64())?;
    loop {
        let until = last + interval;
        while Instant::now() < until && !STOP.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(20).min(interval));
        }
        if STOP.load(Ordering::Acquire) {
            return Ok(());
        }
        let now = Instant::now();
        look(now.duration_since(last).as_secs_f64())?;
        last = now;
    }
}
