//! The server: sockets, TLS and its threads.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use p4runtime::server::Target;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tonic::transport::Server;

use crate::callers::Callers;
use crate::certificates::{Certificates, Tls};
use crate::connections::{self, Listening};
use crate::devices::Device;
use crate::generated::p4_runtime_server::P4RuntimeServer;
use crate::limits;
use crate::requests::GuardLayer;
use crate::service::Service;

/// The threads that handle requests. A request that takes long gets a thread for itself meanwhile.
const THREADS: usize = 2;

/// Where a server listens with TCP.
#[derive(Clone, Debug)]
pub struct Address {
    /// The address and port. Port 0 is any free one.
    pub socket: SocketAddr,
    /// The certificates. Without them only clients of this machine may connect, unless `anyone` is set.
    pub tls: Option<Tls>,
    /// Whether the server listens beyond this machine without TLS.
    pub anyone: bool,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum StartError {
    #[error(
        "P4Runtime on {0}, which other machines reach, without TLS: give certificates, or say that anyone may connect"
    )]
    Open(SocketAddr),
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] std::io::Error),
    #[error("the standard input is no socket that listens: {0}")]
    Passed(#[source] std::io::Error),
    #[error("the certificates cannot be used: {0}")]
    Tls(String),
    #[error("cannot start the threads of the server: {0}")]
    Threads(#[source] std::io::Error),
}

/// A server that runs until it is dropped.
pub struct Running {
    address: String,
    stop: Option<oneshot::Sender<()>>,
    runtime: Option<Runtime>,
}

impl Running {
    /// The address on which the server listens, for people and for clients: `ADDR:PORT`, or `unix:PATH`.
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_millis(500));
        }
    }
}

/// A socket that listens for clients. It stays in the network namespace in which it was made, wherever the server runs.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    address: String,
    certificates: Option<Arc<Certificates>>,
}

#[derive(Debug)]
enum Socket {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

impl Listener {
    /// Listens on an address. Clients that connect wait until the server has started.
    pub fn bind(address: Address) -> Result<Listener, StartError> {
        let socket = std::net::TcpListener::bind(address.socket);
        let socket = socket.map_err(|why| StartError::Listen(address.socket, why))?;
        Listener::of(socket, address.tls, address.anyone)
    }

    /// A socket that listens already, as a service manager passes it.
    pub fn of(socket: std::net::TcpListener, tls: Option<Tls>, anyone: bool) -> Result<Listener, StartError> {
        let bound = socket.local_addr().map_err(StartError::Passed)?;
        if tls.is_none() && !anyone && !bound.ip().is_loopback() {
            return Err(StartError::Open(bound));
        }
        socket.set_nonblocking(true).map_err(|why| StartError::Listen(bound, why))?;
        lengthen(&socket);
        let certificates = tls.as_ref().map(Certificates::new).transpose().map_err(StartError::Tls)?;
        let certificates = certificates.map(Arc::new);
        Ok(Listener { socket: Socket::Tcp(socket), address: bound.to_string(), certificates })
    }

    /// A Unix socket that listens at a path. Who may connect is what the socket and its directory allow.
    pub fn unix(socket: std::os::unix::net::UnixListener, path: &Path) -> Result<Listener, StartError> {
        let address = format!("unix:{}", path.display());
        socket.set_nonblocking(true).map_err(StartError::Threads)?;
        lengthen(&socket);
        Ok(Listener { socket: Socket::Unix(socket), address, certificates: None })
    }

    /// Whether connections are encrypted.
    pub fn has_tls(&self) -> bool {
        self.certificates.is_some()
    }
}

/// Lets more connections wait until they are accepted. One beyond the queue would try again after a second.
fn lengthen(socket: &impl AsFd) {
    let _ = rustix::net::listen(socket, limits::BACKLOG);
}

/// Starts a server of devices.
pub fn start<T: Target + ?Sized + 'static>(
    listener: Listener,
    devices: BTreeMap<u64, Arc<Device<T>>>,
) -> Result<Running, StartError> {
    let Listener { socket, address, certificates } = listener;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(THREADS).max_blocking_threads(limits::THREADS).enable_all();
    let runtime = runtime.build();
    let runtime = runtime.map_err(StartError::Threads)?;
    let entered = runtime.enter();
    let listening = match socket {
        Socket::Tcp(socket) => TcpListener::from_std(socket).map(Listening::Tcp),
        Socket::Unix(socket) => UnixListener::from_std(socket).map(Listening::Unix),
    };
    let listening = listening.map_err(StartError::Threads)?;
    drop(entered);
    if let Some(certificates) = &certificates {
        runtime.spawn(certificates.clone().follow());
    }
    let server = Server::builder()
        .layer(GuardLayer)
        .max_concurrent_streams(Some(limits::STREAMS))
        .http2_keepalive_interval(Some(limits::KEEPALIVE.0))
        .http2_keepalive_timeout(Some(limits::KEEPALIVE.1))
        .http2_max_header_list_size(limits::HEADERS)
        .initial_stream_window_size(limits::WINDOWS.0)
        .initial_connection_window_size(limits::WINDOWS.1);
    let service = P4RuntimeServer::new(Service::new(devices))
        .max_decoding_message_size(limits::MESSAGE)
        .max_encoding_message_size(usize::MAX);
    let (stop, stopped) = oneshot::channel::<()>();
    runtime.spawn(async move {
        let (reporter, health) = tonic_health::server::health_reporter();
        reporter.set_serving::<P4RuntimeServer<Service<T>>>().await;
        let mut server = server;
        let routes = server.add_service(health).add_service(service);
        let incoming = connections::accept(listening, certificates, Arc::new(Callers::default()));
        let stopped = async { stopped.await.unwrap_or_default() };
        let served = routes.serve_with_incoming_shutdown(incoming, stopped).await;
        if let Err(why) = served {
            eprintln!("warning: the P4Runtime server has ended: {}", chain(&why));
        }
    });
    Ok(Running { address, stop: Some(stop), runtime: Some(runtime) })
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    std::iter::once(error.to_string()).chain(causes.map(ToString::to_string)).collect::<Vec<_>>().join(": ")
}
