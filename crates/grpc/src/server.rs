//! The server: sockets, TLS and its threads.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use control::p4runtime::server::Target;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

use crate::devices::Device;
use crate::generated::p4_runtime_server::P4RuntimeServer;
use crate::service::Service;
use crate::{connections, limits};

/// The threads that handle requests. A request that takes long gets a thread for itself meanwhile.
const THREADS: usize = 2;

/// Where a server listens.
#[derive(Clone, Debug)]
pub struct Address {
    /// The address and port. Port 0 is any free one.
    pub socket: SocketAddr,
    /// The certificates. Without them only clients of this machine may connect, unless `anyone` is set.
    pub tls: Option<Tls>,
    /// Whether the server listens beyond this machine without TLS.
    pub anyone: bool,
}

/// The certificates of a server, as PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The certificate of the server and those that it depends on.
    pub certificate: Vec<u8>,
    /// The key of the certificate.
    pub key: Vec<u8>,
    /// The certificates of the authorities that clients need a certificate of (mutual TLS).
    pub clients: Option<Vec<u8>>,
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
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    runtime: Option<Runtime>,
}

impl Running {
    /// The address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
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
    socket: std::net::TcpListener,
    bound: SocketAddr,
    tls: Option<Tls>,
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
        Ok(Listener { socket, bound, tls })
    }

    /// Whether connections are encrypted.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }
}

/// Starts a server of devices.
pub fn start<T: Target + ?Sized + 'static>(
    listener: Listener,
    devices: BTreeMap<u64, Arc<Device<T>>>,
) -> Result<Running, StartError> {
    let Listener { socket, bound, tls } = listener;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    let runtime = runtime.map_err(StartError::Threads)?;
    let entered = runtime.enter();
    let listener = TcpListener::from_std(socket).map_err(|why| StartError::Listen(bound, why))?;
    drop(entered);
    let mut server = Server::builder()
        .max_concurrent_streams(Some(limits::STREAMS))
        .http2_keepalive_interval(Some(limits::KEEPALIVE.0))
        .http2_keepalive_timeout(Some(limits::KEEPALIVE.1));
    if let Some(tls) = &tls {
        let mut config = ServerTlsConfig::new().identity(Identity::from_pem(&tls.certificate, &tls.key));
        if let Some(clients) = &tls.clients {
            config = config.client_ca_root(Certificate::from_pem(clients));
        }
        server = server.tls_config(config).map_err(|why| StartError::Tls(chain(&why)))?;
    }
    let service = P4RuntimeServer::new(Service::new(devices))
        .max_decoding_message_size(limits::MESSAGE)
        .max_encoding_message_size(usize::MAX);
    let (stop, stopped) = oneshot::channel::<()>();
    runtime.spawn(async move {
        let (reporter, health) = tonic_health::server::health_reporter();
        reporter.set_serving::<P4RuntimeServer<Service<T>>>().await;
        let routes = server.add_service(health).add_service(service);
        let stopped = async { stopped.await.unwrap_or_default() };
        let served = routes.serve_with_incoming_shutdown(connections::accept(listener), stopped).await;
        if let Err(why) = served {
            eprintln!("warning: the P4Runtime server has ended: {}", chain(&why));
        }
    });
    Ok(Running { address: bound, stop: Some(stop), runtime: Some(runtime) })
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    std::iter::once(error.to_string()).chain(causes.map(ToString::to_string)).collect::<Vec<_>>().join(": ")
}
