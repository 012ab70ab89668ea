//! Connections, of which there are a limited number.

use std::io::{Error, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::limits;

/// A connection, which gives its place back when it is dropped.
pub struct Connection {
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
}

/// Accepts connections. A connection beyond the limit waits in the kernel.
pub fn accept(listener: TcpListener) -> ReceiverStream<Result<Connection, Error>> {
    let (send, connections) = mpsc::channel(1);
    let places = Arc::new(Semaphore::new(limits::CONNECTIONS));
    tokio::spawn(async move {
        while let Ok(place) = places.clone().acquire_owned().await {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = send.closed() => break,
            };
            // A client that is gone before it was accepted is no reason to end.
            let Ok((stream, _)) = accepted else { continue };
            let _ = stream.set_nodelay(true);
            if send.send(Ok(Connection { stream, _place: place })).await.is_err() {
                break;
            }
        }
    });
    ReceiverStream::new(connections)
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize, Error>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize, Error>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
