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

/// A client with a certificate, or why it has no connection.
fn client(address: &str, tls: ClientTlsConfig) -> Result<P4RuntimeClient<tonic::transport::Channel>, String> {
    let endpoint = Endpoint::from_shared(format!("https://{address}")).expect("an address").tls_config(tls);
    let channel = RUNTIME.block_on(endpoint.expect("a configuration").connect());
    channel.map(P4RuntimeClient::new).map_err(|why| why.to_string())
}

/// Item 5: a map says which certificate is for which roles; the server's own is nobody's; certificates are read again.
#[test]
fn certificates_have_roles_and_are_read_again() {
    let dir = io::workdir::WorkDir::named("st-tls-map-").expect("a directory");
    let own = Authority::new();
    let (certificate, key) = own.sign("localhost");
    let path = |name: &str| dir.path().join(name).to_str().expect("a path").to_string();
    let write = |name: &str, text: &str| std::fs::write(path(name), text).expect("a file");
    write("cert.pem", &certificate);
    write("key.pem", &key);
    write("ca.pem", &own.certificate.pem());
    write("map.toml", "[[client]]\nsan = \"routes.example\"\nroles = [\"routes\"]\n");
    let (cert, private, ca, map) = (path("cert.pem"), path("key.pem"), path("ca.pem"), path("map.toml"));
    let kinds = crate::client::file("kinds.p4");
    let server = Server::start(&[
        kinds.to_str().expect("a path"),
        "--grpc-cert",
        &cert,
        "--grpc-key",
        &private,
        "--grpc-client-ca",
        &ca,
        "--grpc-map",
        &map,
    ]);
    let trusts = |authority: &Authority| {
        let pem = Certificate::from_pem(authority.certificate.pem());
        ClientTlsConfig::new().ca_certificate(pem).domain_name("localhost")
    };
    let named = |name: &str| {
        let (certificate, key) = own.sign(name);
        trusts(&own).identity(Identity::from_pem(certificate, key))
    };
    // Asks which entries there are, as a role that nobody has: NOT_FOUND says that the client may ask.
    let reads = |tls: ClientTlsConfig, role: &str| {
        let mut rpc = client(&server.address, tls)?;
        let entity = v1::Entity { entity: Some(v1::entity::Entity::TableEntry(v1::TableEntry::default())) };
        let request = v1::ReadRequest { device_id: 1, role: role.to_string(), entities: vec![entity] };
        RUNTIME.block_on(async {
            let code = |status: tonic::Status| format!("{:?}", status.code());
            let mut answers = rpc.read(request).await.map_err(code)?.into_inner();
            answers.message().await.map(drop).map_err(code)
        })
    };
    assert_eq!(reads(named("routes.example"), "routes"), Err("NotFound".to_string()));
    assert_eq!(reads(named("routes.example"), ""), Err("PermissionDenied".to_string()));
    assert_eq!(reads(named("other.example"), "routes"), Err("PermissionDenied".to_string()));
    let as_server = trusts(&own).identity(Identity::from_pem(&certificate, &key));
    let refused = reads(as_server, "routes").expect_err("it is the server's own");
    assert_ne!(refused, "NotFound");
    // A file that is broken changes nothing; a new certificate is that of the next connection.
    write("cert.pem", "broken");
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert_eq!(reads(named("routes.example"), "routes"), Err("NotFound".to_string()));
    let next = Authority::new();
    let (certificate, key) = next.sign("localhost");
    write("key.pem", &key);
    write("cert.pem", &certificate);
    let (certificate, key) = own.sign("routes.example");
    let new = trusts(&next).identity(Identity::from_pem(certificate, key));
    let begun = std::time::Instant::now();
    while reads(new.clone(), "routes") != Err("NotFound".to_string()) {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "the new certificate is used");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
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
