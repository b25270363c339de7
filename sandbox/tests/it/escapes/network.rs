//! Does a byte reach anybody outside?

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::Path;

use sandbox::{BoxSpec, Sandbox};

use super::{check_py, has, py};
use crate::harness::{Yard, everywhere};

/// What listens outside, and must hear nothing.
struct Sink {
    streams: Vec<UnixListener>,
    datagrams: Vec<UnixDatagram>,
}

impl Sink {
    /// Unix sockets that anybody may use, in each of `dirs`, and two without a path.
    fn open(dirs: &[&Path]) -> (Sink, Vec<String>) {
        let name = format!("cloister-sink-{}-{}", std::process::id(), dirs[0].display());
        let address = |kind: &str| SocketAddr::from_abstract_name(format!("{name}-{kind}")).expect("address");
        let mut sink = Sink {
            streams: vec![UnixListener::bind_addr(&address("s")).expect("listen")],
            datagrams: vec![UnixDatagram::bind_addr(&address("d")).expect("bind")],
        };
        let mut targets = vec![format!("\\0{name}-s"), format!("\\0{name}-d")];
        for dir in dirs {
            let (stream, datagram) = (dir.join("s.sock"), dir.join("d.sock"));
            sink.streams.push(UnixListener::bind(&stream).expect("listen"));
            sink.datagrams.push(UnixDatagram::bind(&datagram).expect("bind"));
            for path in [stream, datagram] {
                fs::set_permissions(&path, Permissions::from_mode(0o777)).expect("mode");
                targets.push(path.display().to_string());
            }
        }
        (sink, targets)
    }

    #[track_caller]
    fn heard_nothing(&self) {
        for stream in &self.streams {
            stream.set_nonblocking(true).expect("set");
            assert_eq!(stream.accept().map(drop).expect_err("nobody calls").kind(), ErrorKind::WouldBlock);
        }
        for datagram in &self.datagrams {
            datagram.set_nonblocking(true).expect("set");
            let heard = datagram.recv(&mut [0; 64]).expect_err("nothing arrives");
            assert_eq!(heard.kind(), ErrorKind::WouldBlock);
        }
    }
}

/// Every way of sending to each target; prints those that worked.
const SEND: &str = "
class iovec(ctypes.Structure): _fields_ = [('base', ctypes.c_char_p), ('len', ctypes.c_size_t)]
class msghdr(ctypes.Structure): _fields_ = [('name', ctypes.c_void_p), ('namelen', ctypes.c_uint), ('iov', ctypes.c_void_p),
    ('iovlen', ctypes.c_size_t), ('control', ctypes.c_void_p), ('controllen', ctypes.c_size_t), ('flags', ctypes.c_int)]
class mmsghdr(ctypes.Structure): _fields_ = [('hdr', msghdr), ('len', ctypes.c_uint)]
def sendmmsg(s, to):
    name = ctypes.create_string_buffer(struct.pack('H', 1) + to.encode() + b'\\0')
    vector = iovec(b'x', 1)
    one = mmsghdr(msghdr(ctypes.cast(name, ctypes.c_void_p), 2 + len(to) + (0 if to[0] == '\\0' else 1),
        ctypes.cast(ctypes.byref(vector), ctypes.c_void_p), 1, None, 0, 0), 0)
    if libc.syscall(307, s.fileno(), ctypes.byref(one), 1, 0) < 0: raise OSError(ctypes.get_errno(), '')
for to in TARGETS:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        for how in ('connect', 'sendto', 'sendmsg', 'sendmmsg'):
            s = socket.socket(socket.AF_UNIX, kind)
            attempts = dict(connect=lambda: s.connect(to), sendto=lambda: s.sendto(b'x', to) and None,
                sendmsg=lambda: s.sendmsg([b'x'], [], 0, to) and None, sendmmsg=lambda: sendmmsg(s, to))
            if told(attempts[how]) == 'DONE': print('reached', repr(to), how)
            s.close()
print('end')
";

#[test]
fn no_unix_socket_of_the_host_is_reached_by_path_or_name_with_any_call() {
    if !has("/usr/bin/python3") {
        return;
    }
    everywhere(|yard, first| {
        let tools = tempfile::tempdir().expect("tools");
        fs::set_permissions(tools.path(), Permissions::from_mode(0o755)).expect("mode");
        let repo = yard.repo();
        let (sink, mut targets) = Sink::open(&[repo.as_path(), tools.path()]);
        targets.extend(["/workspace/s.sock".into(), "/workspace/d.sock".into()]);
        targets.extend(["/run/docker.sock", "/dev/log", "/run/systemd/journal/socket"].map(String::from));
        let spec = BoxSpec { tools: vec![tools.path().to_owned()], ..yard.spec() };
        let sandbox = Sandbox::open_on_footing(&spec, first.footing().clone()).expect("a box with tools");
        let list = targets.iter().map(|target| format!("'{target}'")).collect::<Vec<_>>().join(", ");
        assert_eq!(py(&sandbox, &format!("TARGETS = [{list}]{SEND}")), "end\n");
        sink.heard_nothing();
        let seen = py(&sandbox, "print(sum(1 for line in open('/proc/net/unix')))");
        assert_eq!(seen, "1\n", "the box's list of sockets is empty but for its heading");
    });
}

#[test]
fn no_port_of_the_host_and_no_address_outside_is_reached() {
    if !has("/usr/bin/python3") {
        return;
    }
    everywhere(|_, sandbox| {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("listen");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("bind");
        let port = |address: std::io::Result<std::net::SocketAddr>| address.expect("address").port();
        let (tcp_port, udp_port) = (port(tcp.local_addr()), port(udp.local_addr()));
        let program = format!(
            "
for where in [('127.0.0.1', {tcp_port}), ('192.0.2.1', 53), ('10.0.0.1', 80), ('169.254.169.254', 80)]:
    print(told(lambda: socket.create_connection(where, timeout=2).close()))
for where in [('127.0.0.1', {udp_port}), ('192.0.2.1', 53), ('255.255.255.255', 9), ('224.0.0.251', 5353)]:
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    print(told(lambda: u.sendto(b'x', where) and None))
s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM); s.settimeout(2)
print(told(lambda: s.connect(('2001:db8::1', 53))))
"
        );
        let refused =
            "ECONNREFUSED\nENETUNREACH\nENETUNREACH\nENETUNREACH\nDONE\nENETUNREACH\nENETUNREACH\nENETUNREACH\n";
        let told = py(sandbox, &program);
        assert!(told.starts_with(refused), "{told}");
        assert!(["ENETUNREACH\n", "EADDRNOTAVAIL\n"].contains(&&told[refused.len()..]), "{told}");
        tcp.set_nonblocking(true).expect("set");
        udp.set_nonblocking(true).expect("set");
        assert_eq!(tcp.accept().map(drop).expect_err("nobody calls").kind(), ErrorKind::WouldBlock);
        // To the loopback a datagram can be sent: to the box's own, where nobody listens.
        assert_eq!(udp.recv(&mut [0; 8]).expect_err("nothing arrives").kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn no_name_is_resolved_but_the_boxs_own() {
    check_py(
        "
for name in ('example.invalid', 'host.internal', 'metadata.internal', 'box', 'localhost'):
    try: print(name, socket.getaddrinfo(name, 80, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
    except socket.gaierror: print(name, 'unknown')
",
        "example.invalid unknown\nhost.internal unknown\nmetadata.internal unknown\nbox 127.0.0.1\n\
         localhost 127.0.0.1\n",
    );
}

#[test]
fn no_family_of_sockets_exists_but_unix_and_internet_and_none_is_raw() {
    check_py(
        "
found = set()
for family in range(64):
    for high in (0, 1 << 32):
        for kind in (1, 2, 3, 4, 5, 10):
            for protocol in (0, 1, 6, 17, 58, 132, 255):
                fd = libc.syscall(41, ctypes.c_long(family | high), kind, protocol)
                if fd < 0: continue
                os.close(fd)
                found.add(family)
                if kind in (3, 10) and family != 1: print('raw', family, kind, protocol)
                if high: print('wide', family)
print(sorted(found - {10}))
",
        "[1, 2]\n",
    );
}

#[test]
fn the_boxs_own_loopback_is_up_so_that_test_servers_work() {
    check_py(
        "
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname(), timeout=5)
peer = server.accept()[0]; peer.sendall(b'hello'); print(client.recv(9).decode())
pair = socket.socketpair(); pair[0].send(b'pair'); print(pair[1].recv(9).decode())
own = socket.socket(socket.AF_UNIX); own.bind('/tmp/own'); own.listen()
socket.socket(socket.AF_UNIX).connect('/tmp/own'); print('own')
",
        "hello\npair\nown\n",
    );
}

#[test]
fn two_boxes_do_not_hear_each_other() {
    if !has("/usr/bin/python3") {
        return;
    }
    let yard = Yard::new();
    let Some(one) = yard.open() else { return };
    let two = one.fresh().expect("a second box");
    std::thread::scope(|scope| {
        let server = "s = socket.create_server(('127.0.0.1', 40404)); a = socket.socket(socket.AF_UNIX)
a.bind('\\0cloister-between'); a.listen(); s.settimeout(2); print(told(lambda: s.accept()[0].close()))";
        let serving = scope.spawn(|| py(&one, server));
        let client = "
import time
heard = []
for _ in range(15):
    heard.append(told(lambda: socket.create_connection(('127.0.0.1', 40404), timeout=1).close()))
    heard.append(told(lambda: socket.socket(socket.AF_UNIX).connect('\\0cloister-between')))
    time.sleep(0.1)
print('DONE' in heard)";
        assert_eq!(py(&two, client), "False\n");
        // A timeout has no number.
        assert_eq!(serving.join().expect("thread"), "?\n");
    });
}
