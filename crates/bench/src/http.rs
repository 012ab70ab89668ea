//! One HTTP exchange: a server in the server's namespace, a GET from the client's. Every byte of the answer is compared.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::lab::{Lab, SERVER4};
use crate::{Error, Result};

/// The TCP port of the server.
const PORT: u16 = 80;
/// The time limit of each step of the exchange.
const PATIENCE: Duration = Duration::from_secs(10);

/// The result of a GET.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetched {
    /// Length of the content in bytes. The content was equal to what the server sent.
    pub bytes: usize,
    /// The client's address as the server saw it.
    pub seen: IpAddr,
    /// The time from the connection attempt to the last byte.
    pub time: Duration,
}

/// Serves `bytes` bytes on the lab's server, and fetches them from its client under the address `target`.
pub fn exchange(lab: &Lab, target: IpAddr, bytes: usize) -> Result<Fetched> {
    let page = page(bytes);
    let server = Server::start(lab, page.clone())?;
    let start = Instant::now();
    let fetched = lab.client.enter(|| get(SocketAddr::new(target, PORT)))??;
    let time = start.elapsed();
    if fetched.content != page {
        return Err(Error::Traffic(format!(
            "HTTP: {} bytes came where {bytes} were sent, or others than those",
            fetched.content.len()
        )));
    }
    drop(server);
    Ok(Fetched { bytes, seen: fetched.seen, time })
}

/// The content of the page. Its lines are numbered, so that a lost, repeated or swapped segment changes it.
fn page(bytes: usize) -> Vec<u8> {
    let mut page = Vec::with_capacity(bytes + 64);
    for line in 0.. {
        if page.len() >= bytes {
            break;
        }
        let hash = (line as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        page.extend(format!("{line:8} an IPv4-only server says {hash:016x}\n").into_bytes());
    }
    page.truncate(bytes);
    page
}

/// A web server with one page. Dropping it stops it.
struct Server {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(lab: &Lab, page: Vec<u8>) -> Result<Self> {
        let trouble = |source| Error::System { what: format!("listen on {SERVER4}:{PORT}"), source };
        // A socket belongs to the namespace where it was made, whichever thread uses it.
        let listener = lab.server.enter(|| TcpListener::bind((SERVER4, PORT)))?.map_err(trouble)?;
        listener.set_nonblocking(true).map_err(trouble)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                match listener.accept() {
                    // A failed connection is not an error here: the client reports what it did not receive.
                    Ok((stream, peer)) => drop(answer(stream, peer.ip(), &page)),
                    Err(_) => thread::sleep(Duration::from_millis(1)),
                }
            }
        });
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers one request. The answer tells the client under which address the server sees it.
fn answer(stream: TcpStream, peer: IpAddr, page: &[u8]) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nX-Client: {peer}\r\n\
         Connection: close\r\n\r\n",
        page.len()
    );
    let mut stream = reader.into_inner();
    stream.write_all(head.as_bytes())?;
    stream.write_all(page)
}

/// An answer as the client received it.
struct Answer {
    content: Vec<u8>,
    seen: IpAddr,
}

/// Fetches the page `/` from the server.
fn get(server: SocketAddr) -> Result<Answer> {
    let trouble = |source| Error::System { what: format!("GET http://{server}/"), source };
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE).map_err(trouble)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(trouble)?;
    write!(stream, "GET / HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n").map_err(trouble)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(trouble)?;
    parse(&answer).ok_or_else(|| Error::Traffic(format!("HTTP: {server} did not answer in HTTP")))
}

/// Extracts the client's address (as the server saw it) and the content from an answer.
fn parse(answer: &[u8]) -> Option<Answer> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let mut lines = head.lines();
    lines.next().filter(|status| status.contains(" 200 "))?;
    let seen = lines.find_map(|line| line.strip_prefix("X-Client: "))?.parse().ok()?;
    Some(Answer { content: answer[end + 4..].to_vec(), seen })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let answer = parse(b"HTTP/1.1 200 OK\r\nX-Client: 198.51.100.2\r\n\r\nhello").unwrap();
        assert_eq!(answer.content, b"hello");
        assert_eq!(answer.seen.to_string(), "198.51.100.2");
        assert!(parse(b"HTTP/1.1 404 Not Found\r\nX-Client: 198.51.100.2\r\n\r\n").is_none());
        assert!(parse(b"SSH-2.0").is_none());
    }

    #[test]
    fn a_page_is_as_long_as_asked_and_never_repeats() {
        let page = page(10_000);
        assert_eq!(page.len(), 10_000);
        assert_ne!(page[..1_000], page[1_000..2_000]);
    }
}
