//! The certificates of a server. They are read again when their files have changed; files that cannot be used change nothing.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::limits;
use crate::rights::{Map, Rights, same_key};

/// The files of a server's certificates, all as PEM.
#[derive(Clone, Debug, PartialEq)]
pub struct Tls {
    /// The certificate of the server and those that it depends on.
    pub certificate: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
    /// The certificates of the authorities that clients need a certificate of (mutual TLS).
    pub clients: Option<PathBuf>,
    /// Which roles and devices the clients' certificates are for; without it all.
    pub map: Option<PathBuf>,
}

/// What new connections are encrypted with.
#[derive(Debug)]
pub struct Certificates {
    files: Tls,
    current: RwLock<Arc<Current>>,
}

/// What the files say.
#[derive(Debug)]
pub struct Current {
    config: Arc<ServerConfig>,
    /// The server's own certificate.
    own: CertificateDer<'static>,
    map: Option<Map>,
    /// When and how the files were written.
    seen: Vec<Seen>,
}

/// What changes when a file is written or replaced.
type Seen = Option<(u64, i64, i64, u64)>;

impl Certificates {
    /// Reads the files.
    pub fn new(files: &Tls) -> Result<Certificates, String> {
        Ok(Certificates { current: RwLock::new(Arc::new(Current::read(files)?)), files: files.clone() })
    }

    /// What the next connection is encrypted with.
    pub fn current(&self) -> Arc<Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks whether the files have changed, for ever.
    pub async fn follow(self: Arc<Certificates>) {
        let mut refused = Vec::new();
        loop {
            tokio::time::sleep(limits::CERTIFICATES).await;
            let seen = self.files.seen();
            if seen == self.current().seen || seen == refused {
                continue;
            }
            match Current::read(&self.files) {
                Ok(read) => {
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(read);
                    eprintln!("P4Runtime has new certificates");
                }
                Err(why) => {
                    eprintln!("warning: the new certificates cannot be used, the old ones stay: {why}");
                    refused = seen;
                }
            }
        }
    }
}

impl Tls {
    fn seen(&self) -> Vec<Seen> {
        let paths = [Some(&self.certificate), Some(&self.key), self.clients.as_ref(), self.map.as_ref()];
        let seen = |path: &PathBuf| {
            let found = path.metadata().ok()?;
            Some((found.ino(), found.mtime(), found.mtime_nsec(), found.size()))
        };
        paths.into_iter().flatten().map(seen).collect()
    }
}

impl Current {
    fn read(files: &Tls) -> Result<Current, String> {
        // A file that changes after this is read again.
        let seen = files.seen();
        let chain = certificates(&files.certificate)?;
        let own = chain.first().cloned().ok_or_else(|| no_certificate(&files.certificate))?;
        let map = match &files.map {
            None => None,
            Some(path) => {
                let text = String::from_utf8(contents(path)?).map_err(|_| in_file(path, "it is no text"))?;
                Some(Map::parse(&text).map_err(|why| in_file(path, why))?)
            }
        };
        Ok(Current { config: Arc::new(config(files, chain)?), own, map, seen })
    }

    /// What accepts a connection.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.config.clone().into()
    }

    /// The rights of a client with a certificate, or without one. `None`: the client has the server's own key, which is nobody's.
    pub fn rights(&self, certificate: Option<&CertificateDer<'_>>) -> Option<Rights> {
        if certificate.is_some_and(|certificate| same_key(certificate, &self.own)) {
            return None;
        }
        Some(self.map.as_ref().map_or_else(Rights::default, |map| map.rights(certificate)))
    }
}

fn config(files: &Tls, chain: Vec<CertificateDer<'static>>) -> Result<ServerConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(|why| why.to_string())?;
    let builder = match &files.clients {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(path)? {
                roots.add(authority).map_err(|why| in_file(path, why))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|why| in_file(path, why))?)
        }
    };
    let key = PrivateKeyDer::from_pem_slice(&contents(&files.key)?);
    let key = key.map_err(|why| in_file(&files.key, why))?;
    let mut config = builder.with_single_cert(chain, key).map_err(|why| in_file(&files.certificate, why))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = contents(path)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let read = read.map_err(|why| in_file(path, why))?;
    match read.is_empty() {
        true => Err(no_certificate(path)),
        false => Ok(read),
    }
}

fn contents(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|why| in_file(path, why))
}

fn no_certificate(path: &Path) -> String {
    in_file(path, "it has no certificate")
}

fn in_file(path: &Path, why: impl std::fmt::Display) -> String {
    format!("{}: {why}", path.display())
}
