//! Asks resolvers for the addresses of the well-known name (RFC 7050).

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, TcpStream, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use nat64::pref64::{self, Answer};

const PORT: u16 = 53;
/// How long an answer is waited for, and how often each resolver is asked.
const PATIENCE: Duration = Duration::from_secs(2);
const ROUNDS: usize = 2;
/// The resolvers of a host.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// More resolvers than this are not asked, as by the C library (resolv.conf(5)).
const MOST: usize = 3;

/// Asks one resolver after the other until one answers. The error says why none did.
pub fn ask(given: &[IpAddr]) -> Result<(IpAddr, Answer), String> {
    let resolvers = match given {
        [] => configured(Path::new(RESOLV_CONF))?,
        given => given.iter().map(|address| SocketAddr::new(*address, PORT)).collect(),
    };
    let mut errors = Vec::new();
    for resolver in resolvers.iter().cycle().take(resolvers.len() * ROUNDS) {
        match exchange(*resolver) {
            Ok(answer) => return Ok((resolver.ip(), answer)),
            Err(error) => errors.push(format!("{}: {error}", resolver.ip())),
        }
    }
    errors.truncate(resolvers.len());
    Err(errors.join("; "))
}

/// The resolvers in resolv.conf(5).
fn configured(file: &Path) -> Result<Vec<SocketAddr>, String> {
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    match resolvers(&text) {
        none if none.is_empty() => Err(format!("{} names no resolver", file.display())),
        some => Ok(some),
    }
}

fn resolvers(text: &str) -> Vec<SocketAddr> {
    let words = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == "nameserver").then(|| words.next()).flatten()
    });
    words.filter_map(address).take(MOST).collect()
}

/// An address that may have a scope, such as `fe80::1%eth0`.
fn address(text: &str) -> Option<SocketAddr> {
    match text.split_once('%') {
        None => text.parse().ok().map(|address| SocketAddr::new(address, PORT)),
        Some((address, interface)) => {
            let index = io_index(interface)?;
            Some(SocketAddrV6::new(address.parse().ok()?, PORT, 0, index).into())
        }
    }
}

fn io_index(interface: &str) -> Option<u32> {
    interface.parse().ok().or_else(|| ::io::link::index_of(interface).ok())
}

/// Asks one resolver, by UDP, and by TCP if the answer is too long.
fn exchange(resolver: SocketAddr) -> Result<Answer, String> {
    let id = RandomState::new().build_hasher().finish() as u16;
    let question = pref64::question(id);
    let message = datagram(resolver, &question).map_err(|error| error.to_string())?;
    // RFC 1035 section 4.1.1: the bit TC.
    let truncated = message.get(2).is_some_and(|flags| flags & 2 != 0);
    let message = match truncated {
        true => stream(resolver, &question).map_err(|error| error.to_string())?,
        false => message,
    };
    pref64::answered(&message, id)
}

fn datagram(resolver: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let any: IpAddr = if resolver.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
    let socket = UdpSocket::bind((any, 0))?;
    // Answers of others do not arrive.
    socket.connect(resolver)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send(question)?;
    let begun = Instant::now();
    let mut buffer = [0; 4096];
    while begun.elapsed() < PATIENCE {
        let length = match socket.recv(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            other => other?,
        };
        // A late answer to an earlier question has another number.
        if buffer[..length].get(..2) == question.get(..2) {
            return Ok(buffer[..length].to_vec());
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "does not answer"))
}

fn stream(resolver: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&resolver, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let length = question.len() as u16;
    stream.write_all(&[&length.to_be_bytes(), question].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut message)?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolv_conf_is_read_as_the_c_library_reads_it() {
        let text = "# nameserver 192.0.2.9\nsearch example.org\nnameserver 2001:db8::53\n nameserver\t192.0.2.53 # x\n\
                    nameserver fe80::1%7\nnameserver 192.0.2.54\nnameservers 192.0.2.55\nnameserver\n";
        let found: Vec<String> = resolvers(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["[2001:db8::53]:53", "192.0.2.53:53", "[fe80::1%7]:53"]);
    }
}
