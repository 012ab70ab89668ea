//! Connections: accepted, encrypted, with a deadline for their beginning, and ended when another one needs their place.

use std::future::poll_fn;
use std::io::{Error, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::either::Either;
use tonic::transport::server::Connected;

use crate::callers::{Caller, Callers, Entry, Peer, Place};
use crate::certificates::Certificates;
use crate::limits;
use crate::owners::{Owner, Owners};

/// The length of the preface of HTTP/2 in bytes (RFC 9113, section 3.4).
const PREFACE: usize = 24;
/// The wait after a connection could not be accepted because the process or the machine has no more files.
const NO_FILES: Duration = Duration::from_millis(50);
/// The wait after a connection could not be accepted for another reason.
const FAILED: Duration = Duration::from_millis(1);

/// A socket that listens.
pub enum Listening {
    /// A TCP socket, on which peers are addresses.
    Tcp(TcpListener),
    /// A Unix socket, on which peers are users.
    Unix(UnixListener),
}

impl Listening {
    /// The next connection. `None` instead of a peer: its client has left.
    async fn accept(&self, owners: Option<&Owners>) -> Result<(Socket, Option<Peer>), Error> {
        Ok(match self {
            Listening::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                let _ = stream.set_nodelay(true);
                let peer = match (Peer::of(address.ip()), owners) {
                    (Peer::Loopback, Some(owners)) => match owners.of(address, stream.local_addr()?) {
                        Owner::User(user) => Some(Peer::Local(user)),
                        Owner::Unknown => Some(Peer::Loopback),
                        Owner::Nobody => None,
                    },
                    (peer, _) => Some(peer),
                };
                (Either::Left(stream), peer)
            }
            Listening::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let user = stream.peer_cred()?.uid();
                (Either::Right(stream), Some(Peer::User(user)))
            }
        })
    }
}

/// Accepts the connections of a socket that get a place, and ends those that do not begin in time.
pub fn accept(
    listening: Listening,
    certificates: Option<Arc<Certificates>>,
    callers: Arc<Callers>,
) -> ReceiverStream<Result<Connection, Error>> {
    let (send, connections) = mpsc::channel(1);
    // Without sock_diag in the kernel, everybody on this machine is one peer.
    let owners = Owners::open().ok();
    tokio::spawn(async move {
        loop {
            let accepted = tokio::select! {
                accepted = listening.accept(owners.as_ref()) => accepted,
                () = send.closed() => break,
            };
            let wait = match accepted {
                Ok((socket, Some(peer))) => enter(&callers, socket, peer, &certificates, &send),
                Ok((_, None)) => None,
                Err(why) if has_no_files(&why) => {
                    callers.end_one();
                    Some(NO_FILES)
                }
                // A client that is gone before it was accepted is no reason to end.
                Err(_) => Some(FAILED),
            };
            if let Some(wait) = wait {
                tokio::time::sleep(wait).await;
            }
        }
    });
    ReceiverStream::new(connections)
}

/// Takes a connection in, if it has a place; otherwise it is closed at once, so that nobody waits behind it. Returns how long the next one waits: while
/// connections of some peers end for those of others, each has a moment for its first request.
fn enter(
    callers: &Arc<Callers>,
    socket: Socket,
    peer: Peer,
    certificates: &Option<Arc<Certificates>>,
    send: &mpsc::Sender<Result<Connection, Error>>,
) -> Option<Duration> {
    let (place, wait) = match callers.enter(peer) {
        Entry::Free(place) => (place, None),
        Entry::Instead(place) => (place, Some(Duration::from_secs(1) / limits::ACCEPTED)),
        Entry::Full => return None,
    };
    let (send, certificates) = (send.clone(), certificates.clone());
    let deadline = Instant::now() + limits::PREFACE;
    tokio::spawn(async move {
        let stream = match certificates {
            None => Either::Left(socket),
            Some(certificates) => {
                let current = certificates.current();
                let handshake = tokio::select! {
                    handshake = timeout_at(deadline, current.acceptor().accept(socket)) => handshake,
                    () = poll_fn(|cx| place.caller.poll_ended(cx)) => return,
                };
                let Ok(Ok(stream)) = handshake else { return };
                let presented = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                // The server's own certificate is nobody's.
                let Some(rights) = current.rights(presented) else { return };
                place.caller.set_rights(rights);
                Either::Right(Box::new(stream))
            }
        };
        let begin = Some(Begin { missing: PREFACE, deadline: Box::pin(sleep_until(deadline)) });
        let _ = send.send(Ok(Connection { stream, place, begin })).await;
    });
    wait
}

/// Whether the process or the machine has no room for another file.
fn has_no_files(why: &Error) -> bool {
    const EMFILE: i32 = 24;
    const ENFILE: i32 = 23;
    const ENOBUFS: i32 = 105;
    const ENOMEM: i32 = 12;
    matches!(why.raw_os_error(), Some(EMFILE | ENFILE | ENOBUFS | ENOMEM))
}

/// A connection, which gives its place back when it is dropped.
pub struct Connection {
    stream: Stream,
    place: Place,
    /// Until HTTP/2 has begun.
    begin: Option<Begin>,
}

/// The beginning of a connection.
struct Begin {
    /// The bytes of the preface that have not come.
    missing: usize,
    deadline: Pin<Box<Sleep>>,
}

type Socket = Either<TcpStream, UnixStream>;
type Stream = Either<Socket, Box<TlsStream<Socket>>>;

impl Connected for Connection {
    type ConnectInfo = Arc<Caller>;

    fn connect_info(&self) -> Arc<Caller> {
        self.place.caller.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), Error>> {
        let this = self.get_mut();
        // Another connection needs its place.
        if this.place.caller.poll_ended(cx).is_ready() {
            return Poll::Ready(Err(ErrorKind::ConnectionAborted.into()));
        }
        let late = this.begin.as_mut().is_some_and(|begin| begin.deadline.as_mut().poll(cx).is_ready());
        if late {
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buf);
        if let Some(begin) = &mut this.begin {
            begin.missing = begin.missing.saturating_sub(buf.filled().len() - before);
        }
        this.begin.take_if(|begin| begin.missing == 0);
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize, Error>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize, Error>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
