//! TLS and mutual TLS.

use grpc::generated::p4_runtime_client::P4RuntimeClient;
use proto::p4::v1;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::client::{RUNTIME, Server};

/// An authority, and a certificate that it has signed for a name.
struct Authority {
    certificate: rcgen::Certificate,
    parameters: rcgen::CertificateParams,
    key: rcgen::KeyPair,
}

impl Authority {
    fn new() -> Authority {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut parameters = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).expect("a certificate");
        Authority { certificate, parameters, key }
    }

    /// The certificate and the key of a name, as PEM.
    fn sign(&self, name: &str) -> (String, String) {
        let key = rcgen::KeyPair::generate().expect("a key");
        let parameters = rcgen::CertificateParams::new(vec![name.to_string()]).expect("parameters");
        let issuer = rcgen::Issuer::from_params(&self.parameters, &self.key);
        let certificate = parameters.signed_by(&key, &issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }
}

/// Asks for the capabilities. The error is that of the connection or of the answer.
fn ask(address: &str, tls: ClientTlsConfig) -> Result<(), String> {
    let endpoint = Endpoint::from_shared(format!("https://{address}")).expect("an address").tls_config(tls);
    RUNTIME.block_on(async {
        let channel =
            endpoint.map_err(|why| why.to_string())?.connect().await.map_err(|why| why.to_string())?;
        let asked =
            P4RuntimeClient::new(channel).capabilities(v1::CapabilitiesRequest { device_id: 0 }).await;
        asked.map(drop).map_err(|why| why.to_string())
    })
}

#[test]
fn clients_need_the_right_certificates() {
    let dir = io::workdir::WorkDir::named("st-tls-").expect("a directory");
    let (own, other) = (Authority::new(), Authority::new());
    let (certificate, key) = own.sign("localhost");
    let path = |name: &str| dir.path().join(name).to_str().expect("a path").to_string();
    for (name, text) in [("cert.pem", &certificate), ("key.pem", &key), ("ca.pem", &own.certificate.pem())] {
        std::fs::write(path(name), text).expect("a file");
    }
    let (cert, key, ca) = (path("cert.pem"), path("key.pem"), path("ca.pem"));
    let trusts = |authority: &Authority| {
        let pem = Certificate::from_pem(authority.certificate.pem());
        ClientTlsConfig::new().ca_certificate(pem).domain_name("localhost")
    };
    let server = Server::start(&["--grpc-cert", &cert, "--grpc-key", &key]);
    assert_eq!(ask(&server.address, trusts(&own)), Ok(()));
    assert!(
        ask(&server.address, trusts(&other)).is_err(),
        "the server's certificate is of another authority"
    );
    let mutual = Server::start(&["--grpc-cert", &cert, "--grpc-key", &key, "--grpc-client-ca", &ca]);
    let with = |authority: &Authority| {
        let (certificate, key) = authority.sign("controller");
        trusts(&own).identity(Identity::from_pem(certificate, key))
    };
    assert_eq!(ask(&mutual.address, with(&own)), Ok(()));
    assert!(ask(&mutual.address, with(&other)).is_err(), "the client's certificate is of another authority");
    assert!(ask(&mutual.address, trusts(&own)).is_err(), "the client has no certificate");
}

#[test]
fn without_tls_other_machines_are_kept_out_unless_told_otherwise() {
    let run = |more: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_strait"))
            .args(["run", "--target", "interp"])
            .args(more)
            .output()
            .expect("strait runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, told) = run(&["--grpc", ":0"]);
    assert_eq!(code, Some(1));
    assert!(told.contains("without TLS"), "{told}");
    let (code, told) = run(&["--grpc", "nonsense"]);
    assert_eq!(code, Some(1));
    assert!(told.contains("ADDR:PORT"), "{told}");
    let (code, told) = run(&["--grpc", "0", "--grpc-cert", "/nowhere", "--grpc-key", "/nowhere"]);
    assert_eq!(code, Some(1));
    assert!(told.contains("/nowhere"), "{told}");
    let server = Server::start(&["--grpc-insecure"]);
    let taken = run(&["--grpc", &server.address]);
    assert!(taken.1.contains("cannot listen"), "{}", taken.1);
}
