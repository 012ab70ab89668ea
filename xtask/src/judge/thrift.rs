//! Calls to a Thrift service: the strict binary protocol over TCP, with the types that BMv2's `standard.thrift` uses.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

/// A value of the protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    I32(i32),
    I64(i64),
    /// Thrift's `string` and `binary`.
    Bytes(Vec<u8>),
    List(Vec<Value>),
    /// Fields with their numbers.
    Struct(Vec<(i16, Value)>),
}

/// The first half of every message's first word: version 1.
const VERSION: u32 = 0x8001_0000;
const CALL: u32 = 1;
const REPLY: u32 = 2;

/// The types, as numbers.
const STOP: u8 = 0;
const I32: u8 = 8;
const I64: u8 = 10;
const BYTES: u8 = 11;
const STRUCT: u8 = 12;
const LIST: u8 = 15;

/// A connection to a server that has several services.
pub struct Client(TcpStream);

impl Client {
    pub fn connect(port: u16) -> std::io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        Ok(Client(stream))
    }

    /// Calls `method` of a service; the arguments are numbered from 1. The inner error is the code of the exception that the method declares.
    pub fn call(&mut self, method: &str, args: Vec<Value>) -> anyhow::Result<Result<Option<Value>, i32>> {
        let mut message = Vec::new();
        message.extend((VERSION | CALL).to_be_bytes());
        Value::Bytes(method.as_bytes().to_vec()).write(&mut message);
        message.extend(0u32.to_be_bytes());
        Value::Struct((1..).zip(args).collect()).write(&mut message);
        self.0.write_all(&message).with_context(|| format!("call {method}"))?;
        let reply = self.reply().with_context(|| format!("the reply to {method}"))?;
        let Value::Struct(fields) = reply else { bail!("the reply to {method} is no struct") };
        match fields.into_iter().next() {
            None => Ok(Ok(None)),
            Some((0, value)) => Ok(Ok(Some(value))),
            Some((_, Value::Struct(exception))) => match exception.first() {
                Some((_, Value::I32(code))) => Ok(Err(*code)),
                _ => bail!("{method} failed without a code"),
            },
            Some(_) => bail!("{method} failed in an unknown way"),
        }
    }

    fn reply(&mut self) -> anyhow::Result<Value> {
        let kind = u32::from_be_bytes(self.bytes()?);
        self.value(BYTES)?;
        let _sequence: [u8; 4] = self.bytes()?;
        let value = self.value(STRUCT)?;
        ensure!(kind == VERSION | REPLY, "the server reports an error: {value:?}");
        Ok(value)
    }

    fn value(&mut self, kind: u8) -> anyhow::Result<Value> {
        Ok(match kind {
            I32 => Value::I32(i32::from_be_bytes(self.bytes()?)),
            I64 => Value::I64(i64::from_be_bytes(self.bytes()?)),
            BYTES => {
                let mut bytes = vec![0; u32::from_be_bytes(self.bytes()?) as usize];
                self.0.read_exact(&mut bytes)?;
                Value::Bytes(bytes)
            }
            LIST => {
                let [kind] = self.bytes()?;
                let length = u32::from_be_bytes(self.bytes()?);
                Value::List((0..length).map(|_| self.value(kind)).collect::<anyhow::Result<_>>()?)
            }
            STRUCT => {
                let mut fields = Vec::new();
                loop {
                    match self.bytes()? {
                        [STOP] => break Value::Struct(fields),
                        [kind] => fields.push((i16::from_be_bytes(self.bytes()?), self.value(kind)?)),
                    }
                }
            }
            other => bail!("a value of Thrift's type {other}"),
        })
    }

    fn bytes<const N: usize>(&mut self) -> anyhow::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

impl Value {
    pub fn text(text: &str) -> Value {
        Value::Bytes(text.as_bytes().to_vec())
    }

    fn kind(&self) -> u8 {
        match self {
            Value::I32(_) => I32,
            Value::I64(_) => I64,
            Value::Bytes(_) => BYTES,
            Value::List(_) => LIST,
            Value::Struct(_) => STRUCT,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Value::I32(value) => out.extend(value.to_be_bytes()),
            Value::I64(value) => out.extend(value.to_be_bytes()),
            Value::Bytes(bytes) => {
                out.extend((bytes.len() as u32).to_be_bytes());
                out.extend(bytes);
            }
            Value::List(values) => {
                // Nobody looks at the type of an empty list's elements.
                out.push(values.first().map_or(BYTES, Value::kind));
                out.extend((values.len() as u32).to_be_bytes());
                values.iter().for_each(|value| value.write(out));
            }
            Value::Struct(fields) => {
                for (number, value) in fields {
                    out.push(value.kind());
                    out.extend(number.to_be_bytes());
                    value.write(out);
                }
                out.push(STOP);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A server that answers one call with a result, and the next with an exception.
    #[test]
    fn a_call_is_written_and_its_reply_is_read() {
        let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = server.local_addr().unwrap().port();
        let call = b"\x80\x01\0\x01\0\0\0\x01m\0\0\0\0\x0b\0\x01\0\0\0\x01t\x08\0\x02\0\0\0\x07\0";
        let answers = thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            for result in [&b"\x08\0\0\0\0\0\x05\0"[..], b"\x0c\0\x01\x08\0\x01\0\0\0\x11\0\0"] {
                let mut got = vec![0; call.len()];
                stream.read_exact(&mut got).unwrap();
                assert_eq!(got, call);
                stream.write_all(b"\x80\x01\0\x02\0\0\0\x01m\0\0\0\0").unwrap();
                stream.write_all(result).unwrap();
            }
        });
        let mut client = Client::connect(port).unwrap();
        let mut call = || client.call("m", vec![Value::text("t"), Value::I32(7)]).unwrap();
        assert_eq!((call(), call()), (Ok(Some(Value::I32(5))), Err(17)));
        answers.join().unwrap();
    }
}
