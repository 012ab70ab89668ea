//! What is done in each exercise, and what must be seen: the steps of its README with the solution.

use anyhow::{Context, ensure};

use super::net::{Net, Place};

/// An exercise. The check returns what was seen.
pub struct Exercise {
    pub name: &'static str,
    pub check: fn(&Place) -> anyhow::Result<String>,
}

const fn exercise(name: &'static str, check: fn(&Place) -> anyhow::Result<String>) -> Exercise {
    Exercise { name, check }
}

/// All exercises, in the order of p4lang's list.
pub const EXERCISES: [Exercise; 13] = [
    exercise("basic", basic),
    exercise("basic_tunnel", basic_tunnel),
    exercise("p4runtime", p4runtime),
    exercise("flowcache", flowcache),
    exercise("ecn", ecn),
    exercise("mri", mri),
    exercise("source_routing", source_routing),
    exercise("calc", calc),
    exercise("load_balance", load_balance),
    exercise("qos", qos),
    exercise("multicast", multicast),
    exercise("firewall", firewall),
    exercise("link_monitor", link_monitor),
];

fn basic(place: &Place) -> anyhow::Result<String> {
    let triangle = Net::start(place, "triangle-topo/topology.json", &["basic.p4"])?;
    triangle.ping_all(&["h1", "h2", "h3"])?;
    drop(triangle);
    let pod = Net::start(place, "pod-topo/topology.json", &["basic.p4"])?;
    let seen = pod.ping_all(&["h1", "h2", "h3", "h4"])?;
    let receiver = pod.receiver("h2")?;
    pod.python("h1", &["send.py", "10.0.2.2", "P4 is cool"], "")?;
    receiver.wait_for("P4 is cool")?;
    Ok(format!("{seen}, receive.py shows the message"))
}

fn basic_tunnel(place: &Place) -> anyhow::Result<String> {
    let net = Net::start(place, "topology.json", &["basic_tunnel.p4"])?;
    let seen = net.ping_all(&["h1", "h2", "h3"])?;
    let receiver = net.receiver("h2")?;
    net.python("h1", &["send.py", "10.0.2.2", "without a tunnel"], "")?;
    let text = receiver.wait_for("without a tunnel")?;
    ensure!(!text.contains("MyTunnel"), "a tunnel header where none was sent");
    net.python("h1", &["send.py", "10.0.3.3", "to the other one", "--dst_id", "2"], "")?;
    let text = receiver.wait_for("to the other one")?;
    ensure!(text.contains("MyTunnel") && text.contains("10.0.3.3"), "no tunnel header: {text}");
    Ok(format!("{seen}; dst_id decides, not the IP address"))
}

fn p4runtime(place: &Place) -> anyhow::Result<String> {
    let net = Net::start(place, "topology.json", &["advanced_tunnel.p4"])?;
    ensure!(!net.pings("h1", "h2")?, "h1 reaches h2 without rules");
    let controller = net.controller()?;
    controller.wait_for("Reading tunnel counters")?;
    ensure!(net.pings("h1", "h2")?, "h1 does not reach h2: {}", controller.text()?);
    for line in ["s1 MyIngress.ingressTunnelCounter 100: ", "s2 MyIngress.ingressTunnelCounter 200: "] {
        let counts = |text: &str| {
            text.lines().any(|l| l.strip_prefix(line).is_some_and(|rest| !rest.starts_with("0 ")))
        };
        controller.wait_until(line, counts)?;
    }
    // The program counts what leaves by the field of a header that it has made invalid. Such a field is 0 here; W0603 warns of it.
    for (grpc, device) in [("127.0.0.1:50051", "0"), ("127.0.0.1:50052", "1")] {
        let seen = net.strait(&[
            "counter",
            "egressTunnelCounter",
            "0",
            "--grpc",
            grpc,
            "--device",
            device,
            "--json",
        ])?;
        ensure!(!seen.contains("\"packets\":0"), "egressTunnelCounter: {seen}");
    }
    Ok("h1 pings h2 through the tunnels of mycontroller.py, whose counters count".to_string())
}

fn flowcache(place: &Place) -> anyhow::Result<String> {
    let net = Net::start(place, "topology.json", &["flowcache.p4"])?;
    let controller = net.controller()?;
    controller.wait_for("Installed P4 Program using SetForwardingPipelineConfig on s3")?;
    std::thread::sleep(std::time::Duration::from_secs(2));
    let seen = net.ping_all(&["h1", "h2", "h3"]).with_context(|| controller.text().unwrap_or_default())?;
    controller.wait_for("added table entry to send packets")?;
    controller.wait_for("Deleted flow_cache entry")?;
    Ok(format!("{seen}; mycontroller.py adds flows by packet-ins, and deletes them after idle notifications"))
}

/// The values of a field in the output of a receiver, in its order.
fn values<'a>(text: &'a str, field: &str) -> Vec<&'a str> {
    let value = |line: &'a str| {
        let (name, value) = line.trim_start_matches(['|', ' ', '\\']).split_once('=')?;
        (name.trim() == field).then_some(value.trim())
    };
    text.lines().filter_map(value).collect()
}

/// Sends 1 Mbit/s by UDP for ten seconds, as iperf does in the READMEs.
const FLOOD: &str = "import socket,sys,time; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\nfor _ in range(1000): s.sendto(bytes(1222),(sys.argv[1],5001)); time.sleep(0.01)";

/// `send.py` sends a message a second from h1 to h2, while h11 sends more to h22 than the link between the switches carries.
fn congest(net: &Net<'_>) -> anyhow::Result<()> {
    let _flood = net.background("h11", &["-c", FLOOD, "10.0.2.22"])?;
    net.python("h1", &["send.py", "10.0.2.2", "in a queue", "8"], "")?;
    Ok(())
}

fn ecn(place: &Place) -> anyhow::Result<String> {
    let net = Net::start(place, "topology.json", &["ecn.p4"])?;
    let seen = net.ping_all(&["h1", "h11", "h2", "h22", "h3"])?;
    let receiver = net.receiver("h2")?;
    net.python("h1", &["send.py", "10.0.2.2", "P4 is cool", "2"], "")?;
    let text = receiver.wait_for("P4 is cool")?;
    ensure!(values(&text, "tos").iter().all(|tos| *tos == "0x1"), "tos without congestion: {text}");
    if place.ideal_links {
        return Ok(format!("{seen}; tos is 0x1; congestion is not tested on ideal links"));
    }
    congest(&net)?;
    receiver.wait_until("tos = 0x3", |text| values(text, "tos").contains(&"0x3"))?;
    Ok(format!("{seen}; tos is 0x1, and 0x3 while packets queue"))
}

fn mri(place: &Place) -> anyhow::Result<String> {
    let net = Net::start(place, "topology.json", &["mri.p4"])?;
    let seen = net.ping_all(&["h1", "h11", "h2", "h22", "h3"])?;
    let receiver = net.receiver("h2")?;
    net.python("h1", &["send.py", "10.0.2.2", "P4 is cool", "1"], "")?;
    let text = receiver.wait_for("P4 is cool")?;
    ensure!(values(&text, "count") == ["2"] && values(&text, "swid") == ["2", "1"], "other traces: {text}");
    if place.ideal_links {
        return Ok(format!("{seen}; the trace has s2 and s1; congestion is not tested on ideal links"));
    }
    congest(&net)?;
    let is_deep = |depth: &&str| depth.parse().is_ok_and(|depth: u32| depth > 1);
    receiver.wait_until("qdepth above 1", |text| values(text, "qdepth").iter().any(is_deep))?;
    Ok(format!("{seen}; the trace has s2 and s1, and s1's queue while packets wait"))
}

fn source_routing(place: &Place) -> anyhow::Result<String> {
    let net = Net::start(place, "topology.json", &["source_routing.p4"])?;
    let receiver = net.receiver("h2")?;
    net.python("h1", &["send.py", "10.0.2.2"], "2 3 2 2 1\nq\n")?;
    let text = receiver.wait_for("ttl")?;
    ensure!(values(&text, "ttl") == ["59"], "another path: {text}");
    Ok("the packet takes the ports 2 3 2 2 1, and has a TTL of 59".to_string())
}

fn calc(place: &Place) -> anyhow::Result<String> {
    let net = Net::start(place, "topology.json", &["calc.p4"])?;
    let asked = [("1+1", "2"), ("9 - 4", "5"), ("6&3", "2"), ("6|1", "7"), ("6^3", "5")];
    let input: String = asked.iter().map(|(line, _)| format!("{line}\n")).collect();
    let text = net.python("h1", &["calc.py"], &(input + "quit\n"))?;
    let answers: Vec<&str> = text.lines().filter(|line| line.parse::<u32>().is_ok()).collect();
    ensure!(answers == asked.map(|(_, answer)| answer), "other answers: {text}");
    Ok("calc.py gets all five operations right".to_string())
}

fn load_balance(place: &Place) -> anyhow::Result<String> {
    let net = Net::start(place, "topology.json", &["load_balance.p4"])?;
    let receivers = [net.receiver("h2")?, net.receiver("h3")?];
    // A source port of its own for each message decides where it goes.
    for sent in 1..=20 {
        net.python("h1", &["send.py", "10.0.0.1", "P4 is cool"], "")?;
        let got = receivers.iter().map(|r| Ok(r.text()?.matches("P4 is cool").count()));
        let got: Vec<usize> = got.collect::<anyhow::Result<_>>()?;
        if got.iter().all(|n| *n > 0) {
            return Ok(format!("of {sent} messages to 10.0.0.1, h2 and h3 have got some"));
        }
    }
    anyhow::bail!("all of 20 messages went to one host, or none arrived")
}

fn qos(place: &Place) -> anyhow::Result<String> {
    let net = Net::start(place, "topology.json", &["qos.p4"])?;
    let seen = net.ping_all(&["h1", "h11", "h2", "h22", "h3"])?;
    let receiver = net.receiver("h2")?;
    for (protocol, tos) in [("UDP", "0xb9"), ("TCP", "0xb1")] {
        net.python(
            "h1",
            &["send.py", &format!("--p={protocol}"), "--des=10.0.2.2", "--m=P4 is cool", "--dur=1"],
            "",
        )?;
        receiver.wait_until(tos, |text| values(text, "tos").contains(&tos))?;
    }
    Ok(format!("{seen}; tos is 0xb9 for UDP and 0xb1 for TCP"))
}

fn multicast(place: &Place) -> anyhow::Result<String> {
    let net = Net::start(place, "sig-topo/topology.json", &["multicast.p4"])?;
    let seen = net.ping_all(&["h1", "h2", "h3", "h4"])?;
    Ok(format!("{seen}, and find each other by ARP"))
}

/// A TCP server for one connection, and a client.
const SERVER: &str = "import socket; s=socket.create_server(('',4711)); print('listening'); c=s.accept()[0]; c.sendall(c.recv(99)); print('served')";
const CLIENT: &str = "import socket,sys; c=socket.create_connection((sys.argv[1],4711),3); c.sendall(b'cool'); assert c.recv(9)==b'cool'";

fn firewall(place: &Place) -> anyhow::Result<String> {
    let net = Net::start(place, "pod-topo/topology.json", &["s1=firewall.p4", "basic.p4"])?;
    let seen = net.ping_all(&["h1", "h2", "h3", "h4"])?;
    for (from, to, address) in [("h1", "h2", "10.0.2.2"), ("h1", "h3", "10.0.3.3")] {
        let server = net.background(to, &["-c", SERVER])?;
        server.wait_for("listening")?;
        net.python(from, &["-c", CLIENT, address], "").with_context(|| format!("{from} to {to}"))?;
    }
    let server = net.background("h1", &["-c", SERVER])?;
    server.wait_for("listening")?;
    ensure!(net.python("h3", &["-c", CLIENT, "10.0.1.1"], "").is_err(), "h3 has opened a connection to h1");
    ensure!(!server.text()?.contains("served"), "h1 has served h3");
    Ok(format!("{seen}; h1 opens connections to h2 and h3, and h3 none to h1"))
}

fn link_monitor(place: &Place) -> anyhow::Result<String> {
    let net = Net::start(place, "pod-topo/topology.json", &["link_monitor.p4"])?;
    let seen = net.ping_all(&["h1", "h2", "h3", "h4"])?;
    let receiver = net.receiver("h1")?;
    let _sender = net.background("h1", &["send.py"])?;
    receiver.wait_for("Switch 1 - Port 1: ")?;
    // Traffic from h1 to h4 crosses the links that the probes measure.
    let (text, good) =
        net.run("h1", &["ping", "-q", "-c", "400", "-i", "0.01", "-s", "1000", "10.0.4.4"], "")?;
    ensure!(good, "{text}");
    let busy = |text: &str| {
        let links = text.lines().filter_map(|line| line.strip_suffix(" Mbps")?.rsplit_once(": "));
        links.filter(|(_, rate)| rate.parse().is_ok_and(|mbps: f64| mbps > 0.2)).count() >= 2
    };
    receiver.wait_until("a rate of more than 0.2 Mbps", busy)?;
    Ok(format!("{seen}; the probes tell the rate of a ping flood on its links"))
}
