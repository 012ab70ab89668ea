//! `strait doctor`: prints what this machine supports, the consequences, and how to get what is missing.

/// Prints the results of the probes.
pub fn run(json: bool) -> anyhow::Result<()> {
    let probes = io::doctor::examine();
    if json {
        println!("{}", serde_json::to_string_pretty(&probes)?);
        return Ok(());
    }
    for probe in &probes {
        println!("{:<22} {:?}: {}", probe.name, probe.status, probe.detail);
        for advice in [probe.consequence, probe.remedy].into_iter().filter(|a| !a.is_empty()) {
            println!("{:<22}   {advice}", "");
        }
    }
    Ok(())
}
