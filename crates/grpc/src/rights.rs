//! Which roles and devices a client may speak for, by its certificate.

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tonic::{Code, Extensions, Status};
use webpki::EndEntityCert;

use crate::callers::Caller;

/// A map from certificates to rights, as a file has it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Map {
    #[serde(default)]
    client: Vec<Entry>,
}

/// The rights of those who hold a certificate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// A name of the certificate: a DNS name or a URI of its subject alternative names.
    san: Option<String>,
    /// The SHA-256 of its public key (the DER of SubjectPublicKeyInfo) in hexadecimal digits.
    spki: Option<String>,
    /// The roles; the empty name is the default role.
    roles: Vec<String>,
    /// The devices; without them all.
    devices: Option<Vec<u64>>,
}

/// What a connection may do. Without a map, every client may do all.
#[derive(Clone, Debug, Default)]
pub struct Rights(Option<Vec<Entry>>);

impl Map {
    /// Reads a map.
    pub fn parse(text: &str) -> Result<Map, String> {
        let map: Map = toml::from_str(text).map_err(|why| why.to_string())?;
        for entry in &map.client {
            let digits = |text: &String| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
            match (&entry.san, &entry.spki) {
                (Some(_), None) => {}
                (None, Some(spki)) if digits(spki) => {}
                (None, Some(spki)) => {
                    return Err(format!("`spki = \"{spki}\"` is not the SHA-256 of a key: 64 digits"));
                }
                _ => return Err("each [[client]] has either `san` or `spki`".to_string()),
            }
        }
        Ok(map)
    }

    /// The rights of the holder of a certificate.
    pub fn rights(&self, certificate: Option<&CertificateDer<'_>>) -> Rights {
        let Some(read) = certificate.and_then(|der| EndEntityCert::try_from(der).ok()) else {
            return Rights(Some(Vec::new()));
        };
        let names: Vec<&str> = read.valid_dns_names().chain(read.valid_uri_names()).collect();
        let key = key_hash(&read);
        let is = |entry: &&Entry| match (&entry.san, &entry.spki) {
            (Some(san), _) => names.iter().any(|name| name.eq_ignore_ascii_case(san)),
            (_, Some(spki)) => spki.eq_ignore_ascii_case(&key),
            _ => false,
        };
        Rights(Some(self.client.iter().filter(is).cloned().collect()))
    }
}

/// The SHA-256 of a certificate's public key in hexadecimal digits.
fn key_hash(certificate: &EndEntityCert<'_>) -> String {
    let hash = Sha256::digest(certificate.subject_public_key_info());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether two certificates are of one key.
pub fn same_key(one: &CertificateDer<'_>, other: &CertificateDer<'_>) -> bool {
    let key = |der| EndEntityCert::try_from(der).ok().map(|read| key_hash(&read));
    key(one).is_some_and(|key_of_one| key(other) == Some(key_of_one))
}

impl Rights {
    /// Whether the holder may speak for a role of a device. Without a role: for any.
    fn allow(&self, device: u64, role: Option<&str>) -> bool {
        let Some(entries) = &self.0 else { return true };
        entries.iter().any(|entry| {
            entry.devices.as_ref().is_none_or(|devices| devices.contains(&device))
                && role.is_none_or(|role| entry.roles.iter().any(|allowed| allowed == role))
        })
    }
}

/// Whether a connection may speak for a role of a device. Without a role: for any.
pub fn check(caller: Option<&Caller>, device: u64, role: Option<&str>) -> Result<(), Status> {
    let allowed = caller.is_some_and(|caller| caller.rights().allow(device, role));
    match (allowed, role) {
        (true, _) => Ok(()),
        (false, Some("")) => Err(denied(format!("the default role of device {device}"))),
        (false, Some(role)) => Err(denied(format!("the role `{role}` of device {device}"))),
        (false, None) => Err(denied(format!("device {device}"))),
    }
}

/// The connection of a request.
pub fn caller(extensions: &Extensions) -> Option<&Caller> {
    extensions.get::<std::sync::Arc<Caller>>().map(AsRef::as_ref)
}

fn denied(what: String) -> Status {
    Status::new(Code::PermissionDenied, format!("the client's certificate is not for {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_says_who_has_which_roles() {
        let map = Map::parse(
            "[[client]]\nsan = \"c\"\nroles = [\"\", \"routes\"]\n[[client]]\nsan = \"d\"\nroles = [\"x\"]\ndevices = [2]",
        );
        let map = map.expect("a map");
        let rights = |at: usize| Rights(Some(vec![map.client[at].clone()]));
        assert!(rights(0).allow(1, Some("")) && rights(0).allow(7, Some("routes")));
        assert!(!rights(0).allow(1, Some("other")));
        assert!(rights(1).allow(2, None) && !rights(1).allow(1, None) && !rights(1).allow(2, Some("")));
        assert!(!map.rights(None).allow(1, None), "without a certificate there are no rights");
        assert!(Rights::default().allow(1, Some("any")), "without a map all may do all");
    }

    #[test]
    fn mistakes_in_a_map_are_told() {
        for (text, says) in [
            ("[[client]]\nroles = []", "either `san` or `spki`"),
            ("[[client]]\nspki = \"12\"\nroles = []", "64 digits"),
            ("[[client]]\nsan = \"a\"\nrole = []", "unknown field"),
        ] {
            let why = Map::parse(text).expect_err("a mistake");
            assert!(why.contains(says), "{why}");
        }
    }
}
