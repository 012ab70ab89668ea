// The Go client of antoninbas (github.com/antoninbas/p4runtime-go-client), unmodified, drives every kind of object of kinds.p4, and frames prove it.
//
// Usage, in a checkout of the client: go run FILE ADDRESS P4INFO PROGRAM INTERFACE…
// PROGRAM is pushed; with "-" the program runs already. The interfaces are the far ends of ports 0, 1, 2.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"sort"
	"syscall"
	"time"

	"github.com/antoninbas/p4runtime-go-client/pkg/client"
	v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

var (
	ctx    = context.Background()
	host   = []byte{2, 0, 0, 0, 0, 1}
	other  = []byte{2, 0, 0, 0, 0, 2}
	failed []string
)

func check(what string, right bool) {
	mark := "ok  "
	if !right {
		mark = "FAIL"
		failed = append(failed, what)
	}
	fmt.Println(mark, what)
}

func done(what string, err error) {
	if err != nil {
		what += ": " + err.Error()
	}
	check(what, err == nil)
}

func refused(what string, err error) {
	check(fmt.Sprintf("%s is refused: %v", what, err), status.Code(err) == codes.Unknown)
}

// The far ends of the ports.
type wires []int

func open(names []string) wires {
	var all wires
	for _, name := range names {
		link, err := net.InterfaceByName(name)
		done("interface "+name, err)
		// ETH_P_ALL in network order.
		socket, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_NONBLOCK, 0x0300)
		done("packet socket", err)
		done("bind", syscall.Bind(socket, &syscall.SockaddrLinklayer{Protocol: 0x0300, Ifindex: link.Index}))
		all = append(all, socket)
	}
	return all
}

type arrived struct {
	port  int
	frame []byte
}

// What arrives within a time; nothing is waited for longer than until 100 ms after the last frame.
func (w wires) receive(wait time.Duration) []arrived {
	var found []arrived
	end := time.Now().Add(wait)
	buffer := make([]byte, 65536)
	for time.Now().Before(end) {
		for port, socket := range w {
			n, from, err := syscall.Recvfrom(socket, buffer, 0)
			if err != nil || from.(*syscall.SockaddrLinklayer).Pkttype == syscall.PACKET_OUTGOING {
				continue
			}
			found = append(found, arrived{port, append([]byte{}, buffer[:n]...)})
			end = time.Now().Add(100 * time.Millisecond)
		}
		time.Sleep(time.Millisecond)
	}
	sort.Slice(found, func(i, j int) bool { return found[i].port < found[j].port })
	return found
}

func (w wires) send(port int, frame []byte) {
	if _, err := syscall.Write(w[port], frame); err != nil {
		done("send", err)
	}
}

// A frame goes in at port 0, and comes out as it is at exactly these ports.
func (w wires) through(what string, frame []byte, ports ...int) {
	w.receive(0)
	w.send(0, frame)
	wait := 300 * time.Millisecond
	if len(ports) > 0 {
		wait = 2 * time.Second
	}
	var seen []int
	for _, got := range w.receive(wait) {
		seen = append(seen, got.port)
		if !bytes.Equal(got.frame, frame) {
			check(what+": the frame has changed", false)
		}
	}
	check(fmt.Sprintf("%s: ports %v", what, seen), fmt.Sprint(seen) == fmt.Sprint(ports))
}

func frame(kind uint16) []byte {
	made := append(append([]byte{}, host...), other...)
	made = binary.BigEndian.AppendUint16(made, kind)
	return append(made, "payload of a frame that is long enough for Ethernet"...)
}

func send(c *client.Client, port byte) *v1.TableAction {
	return c.NewTableActionDirect("I.send", [][]byte{{port}})
}

// One entry is written, does what it says, and is removed. Without it, frames leave by the ports `after`.
func entry(c *client.Client, w wires, what, table string, keys map[string]client.MatchInterface, kind uint16, priority int32, after ...int) {
	made := c.NewTableEntry(table, keys, send(c, 1), &client.TableEntryOptions{Priority: priority})
	done(what+": insert", c.InsertTableEntry(ctx, made))
	refused(what+": the same once more", c.InsertTableEntry(ctx, made))
	w.through(what, frame(kind), 1)
	done(what+": modify", c.ModifyTableEntry(ctx, c.NewTableEntry(table, keys, send(c, 2), &client.TableEntryOptions{Priority: priority})))
	w.through(what+", modified", frame(kind), 2)
	read, err := c.ReadTableEntryWildcard(ctx, table)
	check(fmt.Sprintf("%s: %d entries are read", what, len(read)), err == nil && len(read) == 1)
	done(what+": delete", c.DeleteTableEntry(ctx, made))
	w.through(what+", deleted", frame(kind), after...)
}

// Starts a client, and says whether it is the primary.
func start(address string, election uint64) (*client.Client, chan bool, chan *v1.StreamMessageResponse, chan struct{}) {
	connection, err := grpc.Dial(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	done("dial", err)
	c := client.NewClient(v1.NewP4RuntimeClient(connection), 1, &v1.Uint128{Low: election})
	turns, messages, stop := make(chan bool, 10), make(chan *v1.StreamMessageResponse, 1000), make(chan struct{})
	go c.Run(stop, turns, messages)
	return c, turns, messages, stop
}

func is(turns chan bool, wanted bool, what string) {
	select {
	case turn := <-turns:
		check(what, turn == wanted)
	case <-time.After(5 * time.Second):
		check(what+": no answer", false)
	}
}

// The next message that the function takes.
func next(messages chan *v1.StreamMessageResponse, takes func(*v1.StreamMessageResponse) bool) bool {
	end := time.After(3 * time.Second)
	for {
		select {
		case message := <-messages:
			if takes(message) {
				return true
			}
		case <-end:
			return false
		}
	}
}

func main() {
	address, described, program := os.Args[1], os.Args[2], os.Args[3]
	w := open(os.Args[4:])
	backup, turns, _, stop := start(address, 1)
	is(turns, true, "the first client is the primary")
	c, own, messages, _ := start(address, 2)
	is(own, true, "one with a larger election id takes its place")
	is(turns, false, "the first one hears of it")
	capabilities, err := c.Capabilities(ctx, &v1.CapabilitiesRequest{})
	check("the API's version "+capabilities.GetP4RuntimeApiVersion(), err == nil && capabilities.P4RuntimeApiVersion == "1.5.0")
	if program != "-" {
		_, err := c.SetFwdPipe(ctx, program, described, 7)
		done("push", err)
	}
	pipe, err := c.GetFwdPipe(ctx, client.GetFwdPipeAll)
	done("the pipeline is read", err)
	check("its cookie", program == "-" || pipe.Cookie == 7)
	_, err = backup.GetFwdPipe(ctx, client.GetFwdPipeP4InfoAndCookie)
	done("the backup reads the pipeline", err)
	refusal := backup.InsertTableEntry(ctx, backup.NewTableEntry("I.exact_", nil, send(backup, 1), nil))
	check("the backup writes nothing", status.Code(refusal) == codes.PermissionDenied)
	close(stop)

	keys := func(match client.MatchInterface) map[string]client.MatchInterface {
		return map[string]client.MatchInterface{"dst": match}
	}
	entry(c, w, "exact", "I.exact_", map[string]client.MatchInterface{"dst": &client.ExactMatch{Value: host}, "port": &client.ExactMatch{Value: []byte{0}}}, 0x1001, 0)
	mask := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0}
	entry(c, w, "ternary", "I.ternary_", keys(&client.TernaryMatch{Value: append([]byte{}, host...), Mask: mask}), 0x1002, 5, 0)
	entry(c, w, "range", "I.range_", keys(&client.RangeMatch{Low: []byte{0, 1}, High: []byte{0, 5}}), 0x1003, 1)
	entry(c, w, "optional", "I.optional_", keys(&client.OptionalMatch{Value: host}), 0x1004, 1, 0)

	// Lpm, with the entry's counter.
	action := c.NewTableActionDirect("I.send_routed", [][]byte{{1}, host})
	done("lpm: insert", c.InsertTableEntry(ctx, c.NewTableEntry("I.route", keys(&client.LpmMatch{Value: []byte{0, 0, 0, 1}, PLen: 8}), action, nil)))
	w.through("lpm", frame(0x0800), 1)
	refused("lpm without an action", c.InsertTableEntry(ctx, c.NewTableEntry("I.route", keys(&client.LpmMatch{Value: []byte{1, 0, 0, 0}, PLen: 8}), nil, nil)))

	// A default action, set and unset.
	done("a default action", c.ModifyTableEntry(ctx, c.NewTableEntry("I.exact_", nil, send(c, 2), nil)))
	w.through("by the default action", frame(0x1001), 2)
	done("it is unset", c.ModifyTableEntry(ctx, c.NewTableEntry("I.exact_", nil, nil, nil)))
	w.through("by the program's own default action", frame(0x1001))

	// An entry that nobody hits.
	idle := c.NewTableEntry("I.exact_", map[string]client.MatchInterface{"dst": &client.ExactMatch{Value: host}, "port": &client.ExactMatch{Value: []byte{0}}},
		send(c, 1), &client.TableEntryOptions{IdleTimeout: 300 * time.Millisecond})
	done("an idle timeout", c.InsertTableEntry(ctx, idle))
	check("the idle entry is reported", next(messages, func(m *v1.StreamMessageResponse) bool {
		return len(m.GetIdleTimeoutNotification().GetTableEntry()) == 1
	}))
	done("it is deleted", c.DeleteTableEntry(ctx, idle))

	// Members and a group, then a one-shot, whose ports the library always watches.
	for member := uint32(1); member <= 2; member++ {
		done("a member", c.InsertActionProfileMember(ctx, c.NewActionProfileMember("I.selector", member, "I.send", [][]byte{{2}})))
	}
	group := c.NewActionProfileGroup("I.selector", 1, []*v1.ActionProfileGroup_Member{{MemberId: 1, Weight: 1}, {MemberId: 2, Weight: 2}}, 3)
	done("a group", c.InsertActionProfileGroup(ctx, group))
	grouped := keys(&client.ExactMatch{Value: host})
	done("an entry with the group", c.InsertTableEntry(ctx, c.NewTableEntry("I.group", grouped, c.NewTableActionGroup(1), nil)))
	w.through("the group", frame(0x1005), 2)
	done("an entry with a member", c.ModifyTableEntry(ctx, c.NewTableEntry("I.group", grouped, c.NewTableActionMember(1), nil)))
	w.through("the member", frame(0x1005), 2)
	refused("a member that an entry has is not deleted", c.DeleteActionProfileMember(ctx, c.NewActionProfileMember("I.selector", 1, "I.send", nil)))
	done("the entry is deleted", c.DeleteTableEntry(ctx, c.NewTableEntry("I.group", grouped, nil, nil)))
	done("the group is deleted", c.DeleteActionProfileGroup(ctx, group))
	for member := uint32(1); member <= 2; member++ {
		done("a member is deleted", c.DeleteActionProfileMember(ctx, c.NewActionProfileMember("I.selector", member, "I.send", nil)))
	}
	set := c.NewActionProfileActionSet().AddAction("I.send", [][]byte{{1}}, 1, client.NewPortFromInt(1))
	done("a one-shot", c.InsertTableEntry(ctx, c.NewTableEntry("I.group", grouped, set.TableAction(), nil)))
	w.through("the one-shot", frame(0x1005), 1)
	done("the one-shot is deleted", c.DeleteTableEntry(ctx, c.NewTableEntry("I.group", grouped, nil, nil)))

	done("a multicast group", c.InsertMulticastGroup(ctx, 1, []uint32{1, 2}))
	w.through("multicast", frame(0x1006), 1, 2)
	done("it is deleted", c.DeleteMulticastGroup(ctx, 1))
	done("a clone session", c.InsertCloneSession(ctx, 5, []uint32{2}, client.DefaultCloneSessionOptions))
	w.through("a clone", frame(0x1007), 2)
	done("it is deleted", c.DeleteCloneSession(ctx, 5))

	// Counters and meters.
	w.send(0, frame(0x100a))
	time.Sleep(1200 * time.Millisecond)
	counted, err := c.ReadCounterEntry(ctx, "I.arrived", 3)
	check(fmt.Sprintf("a counter: %v", counted), err == nil && counted.PacketCount == 1)
	all, err := c.ReadCounterEntryWildcard(ctx, "I.arrived")
	check(fmt.Sprintf("%d counters", len(all)), err == nil && len(all) == 8)
	done("a counter is written", c.ModifyCounterEntry(ctx, "I.arrived", 3, &v1.CounterData{PacketCount: 5}))
	counted, err = c.ReadCounterEntry(ctx, "I.arrived", 3)
	check("and read", err == nil && counted.PacketCount == 5)
	meters, err := c.ReadMeterEntryWildcard(ctx, "I.rate")
	check(fmt.Sprintf("%d meters", len(meters)), err == nil && len(meters) == 8)

	// Packets of the controller.
	w.send(1, frame(0x1009))
	check("a packet-in", next(messages, func(m *v1.StreamMessageResponse) bool {
		return bytes.Equal(m.GetPacket().GetPayload(), frame(0x1009))
	}))
	w.receive(0)
	metadata := []*v1.PacketMetadata{{MetadataId: 1, Value: []byte{2}}, {MetadataId: 2, Value: []byte{0}}}
	done("a packet-out", c.SendPacketOut(ctx, &v1.PacketOut{Payload: frame(0x1234), Metadata: metadata}))
	out := w.receive(2 * time.Second)
	check("it leaves", len(out) == 1 && out[0].port == 2 && bytes.Equal(out[0].frame, frame(0x1234)))

	// Digests, acknowledged.
	config := &v1.DigestEntry_Config{MaxTimeoutNs: 10_000_000, MaxListSize: 10, AckTimeoutNs: 1_000_000_000}
	name := ""
	for _, digest := range pipe.P4Info.Digests {
		name = digest.Preamble.Name
	}
	done("digests", c.EnableDigest(ctx, name, config))
	w.send(2, frame(0x1008))
	check("a digest", next(messages, func(m *v1.StreamMessageResponse) bool {
		list := m.GetDigest()
		return list != nil && len(list.Data) == 1 && c.AckDigestList(ctx, list) == nil
	}))
	done("digests are changed", c.ModifyDigest(ctx, name, config))
	done("digests are off", c.DisableDigest(ctx, name))

	if len(failed) > 0 {
		fmt.Println("failed:", failed)
		os.Exit(1)
	}
	fmt.Println("all passed")
}
