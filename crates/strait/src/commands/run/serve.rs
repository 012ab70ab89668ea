//! The machine of a run, alone or with a P4Runtime server.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use dataplane::device::{Device, Event};
use p4runtime::server::{Compiled, Server};

use super::links::Links;
use super::machine::Machine;
use crate::cli::RunArgs;
use abi::text::chain;

/// The address that stands for the standard input: a socket that listens already.
pub const INHERITED: &str = "-";

/// A machine, which controllers may share.
pub struct Host {
    started: Instant,
    machine: Kind,
}

enum Kind {
    Alone(Box<dyn Machine>),
    Served(Arc<grpc::Device<dyn Machine>>, Links),
}

impl Host {
    /// A machine, with a server if one was asked for.
    pub fn new(args: &RunArgs, machine: Box<dyn Machine>) -> anyhow::Result<Host> {
        let machine = match &args.grpc {
            None => Kind::Alone(machine),
            Some(_) => {
                let device = grpc::Device::new(Server::new(args.device_id, machine));
                Kind::Served(Arc::new(device), Links::open(args)?)
            }
        };
        let mut host = Host { started: Instant::now(), machine };
        host.look_at_links();
        Ok(host)
    }

    /// Tells the server when links of ports come or go. Packets pass whether it can or not.
    fn look_at_links(&mut self) {
        let Kind::Served(device, links) = &mut self.machine else { return };
        let told = match links.changed() {
            Ok(None) => return,
            Ok(Some(ports)) => device.with(|server| server.set_links(ports)).map_err(anyhow::Error::from),
            Err(why) => Err(why),
        };
        if links.followed(told.is_ok())
            && let Err(why) = told
        {
            eprintln!("members of action profiles that watch ports are as before: {}", chain(&*why));
        }
    }

    /// Runs `act` while no controller reads or writes.
    pub fn with<R>(&mut self, act: impl FnOnce(&mut dyn Machine) -> R) -> R {
        match &mut self.machine {
            Kind::Alone(machine) => act(&mut **machine),
            Kind::Served(device, _) => device.with(|server| act(server.target())),
        }
    }

    /// Starts the program of the command line. `prepare` gets its device before packets do.
    pub fn start(
        &mut self,
        args: &RunArgs,
        compiled: Compiled,
        prepare: impl FnOnce(&mut dyn Device) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Kind::Served(device, _) = &self.machine else {
            return self.with(|machine| {
                machine.load(compiled.object).map_err(|why| anyhow!(why))?;
                let loaded = machine.loaded().context("the program is not loaded")?;
                prepare(loaded).inspect_err(|_| machine.discard())?;
                machine.commit().map_err(|why| anyhow!(why))
            });
        };
        let source = args.program.as_ref().and_then(|file| std::fs::read(file).ok()).unwrap_or_default();
        device.with(|server| {
            server
                .start(compiled, source, |device| prepare(device).map_err(|why| chain(&*why)))
                .map_err(|why| anyhow!(why.message))
        })
    }

    /// Starts the P4Runtime server on its socket, if one was asked for.
    pub fn serve(&self, listener: Option<grpc::Listener>) -> anyhow::Result<Option<grpc::Running>> {
        let (Kind::Served(device, _), Some(listener)) = (&self.machine, listener) else { return Ok(None) };
        let devices = BTreeMap::from([(device.id(), device.clone())]);
        let how = if listener.has_tls() { " with TLS" } else { "" };
        io::allocator::give_back_at_once();
        let server = grpc::start(listener, devices)?;
        eprintln!("P4Runtime on {}{how}, device {}", server.address(), device.id());
        Ok(Some(server))
    }

    /// Takes what the program has told, passes it to `act` and to the controllers. Returns whether there was anything.
    pub fn turn(&mut self, act: impl FnOnce(&mut dyn Machine, &[Event])) -> anyhow::Result<bool> {
        self.look_at_links();
        let events = self.with(|machine| {
            let events = machine.turn()?;
            act(machine, &events);
            Ok::<_, anyhow::Error>(events)
        })?;
        if let Kind::Served(device, _) = &self.machine {
            device.tell(&events, grpc::now(self.started));
        }
        Ok(!events.is_empty())
    }

    /// The number of messages that controllers did not read in time.
    pub fn unread(&self) -> u64 {
        match &self.machine {
            Kind::Alone(_) => 0,
            Kind::Served(device, _) => device.lost(),
        }
    }
}

/// A socket for controllers, and the file of a Unix socket.
pub type Listening = (grpc::Listener, Option<io::served::Place>);

/// Listens for controllers, if a server was asked for.
pub fn listen(args: &RunArgs) -> anyhow::Result<Option<Listening>> {
    let Some(address) = &args.grpc else { return Ok(None) };
    let tls = match (&args.grpc_cert, &args.grpc_key) {
        (Some(certificate), Some(key)) => Some(grpc::Tls {
            certificate: certificate.clone(),
            key: key.clone(),
            clients: args.grpc_client_ca.clone(),
            map: args.grpc_map.clone(),
        }),
        _ => None,
    };
    let path = match address.strip_prefix("unix") {
        Some("") => Some(io::served::place(args.device_id)?),
        Some(path) => path.strip_prefix(':').map(PathBuf::from),
        None => None,
    };
    if let Some(path) = path {
        if tls.is_some() {
            bail!("--grpc-cert is for TCP: a Unix socket is as safe as its directory");
        }
        let (socket, place) = io::served::listen(&path, args.grpc_group.as_deref())?;
        return Ok(Some((grpc::Listener::unix(socket, &path)?, Some(place))));
    }
    if args.grpc_group.is_some() {
        bail!("--grpc-group is for a Unix socket");
    }
    let anyone = args.grpc_insecure;
    let listener = match address.as_str() {
        INHERITED => {
            let socket = std::io::stdin().as_fd().try_clone_to_owned().context("the standard input")?;
            grpc::Listener::of(socket.into(), tls, anyone)?
        }
        address => grpc::Listener::bind(grpc::Address { socket: socket(address)?, tls, anyone })?,
    };
    Ok(Some((listener, None)))
}

/// An address to listen on: `ADDR:PORT`, `:PORT` for all addresses, `PORT` for this machine only.
fn socket(text: &str) -> anyhow::Result<SocketAddr> {
    let wrong = || format!("`{text}` is not ADDR:PORT, such as 127.0.0.1:9559, and not unix:PATH");
    if let Ok(port) = text.parse() {
        return Ok(SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port));
    }
    if let Some(port) = text.strip_prefix(':') {
        return Ok(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port.parse().with_context(wrong)?));
    }
    let text = text.replace("localhost:", "127.0.0.1:");
    text.parse().with_context(wrong)
}
