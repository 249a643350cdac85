"""A Kubernetes of two nodes in the second machine: the real control plane, kubelets, containerd and kube-proxy.

The nodes share one network and one kube-proxy; each has its own kubelet, containerd and control groups. Other than
in a real cluster, names come from dnsmasq, tokens replace certificates, and network policies have no effect: the
CNI plugin `bridge` knows none.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.deploy.machines.images import PAUSE
from tests.deploy.machines.machine import INSIDE, CannotRun, Machine

VERSION: Final = "1.34.4"
PROGRAMS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
NODES: Final = ("node-1", "node-2")
SUBNET: Final = "10.10.0"
ADDRESS: Final = f"{SUBNET}.1"
SERVER: Final = f"https://{ADDRESS}:6443"
PODS: Final = "10.88.0.0/16"
SERVICES: Final = "10.96.0.0/16"
FIXED: Final = {"kafka": "10.96.0.20", "valkey": "10.96.0.21"}
"""Services whose names dnsmasq knows."""
USERS: Final = {
    "admin": ("admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kube-proxy": ("system:kube-proxy", ""),
    **{node: (f"system:node:{node}", "system:nodes") for node in NODES},
}
SYSCTLS: Final = tuple(
    Path("/proc/sys") / name
    for name in (
        "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
        "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
    )
)  # fmt: skip
"""Settings of the whole machine that a kubelet writes."""


@contextmanager
def kept_sysctls() -> Iterator[None]:
    """Restore the machine's settings at the end."""
    former = {path: path.read_text() for path in SYSCTLS}
    try:
        yield
    finally:
        for path, value in former.items():
            path.write_text(value)


def build_programs(directory: Path, log: Path) -> None:
    """Build Kubernetes by Go from its module, once: ten minutes on two cores."""
    if all((directory / name).exists() for name in PROGRAMS):
        return
    if shutil.which("go") is None:
        raise CannotRun("Go is needed, to build Kubernetes")
    module = directory / "module"
    module.mkdir(parents=True, exist_ok=True)

    def go(*arguments: str) -> str:
        with log.open("a") as output:
            ended = subprocess.run(
                ["nice", "-n", "15", "go", *arguments],
                cwd=module, stdout=subprocess.PIPE, stderr=output, text=True,
                env=os.environ | {"GOFLAGS": "-mod=mod -buildvcs=false"}, check=False,
            )  # fmt: skip
        if ended.returncode:
            raise CannotRun(f"go {arguments[0]} failed, see {log}")
        return ended.stdout

    (module / "go.mod").write_text("module node\n")
    its = Path(json.loads(go("mod", "download", "-json", f"k8s.io/kubernetes@v{VERSION}"))["GoMod"]).read_text()
    staging = [line.split()[0] for line in its.splitlines() if "=> ./staging/" in line]
    version = next(line for line in its.splitlines() if line.startswith("go "))
    replaced = "".join(f"\t{name} => {name} v0{VERSION[1:]}\n" for name in staging)
    (module / "go.mod").write_text(
        f"module node\n\n{version}\n\nrequire k8s.io/kubernetes v{VERSION}\n\nreplace (\n{replaced})\n"
    )
    major, minor, _ = VERSION.split(".")
    package = "k8s.io/component-base/version"
    flags = f"-s -w -X {package}.gitVersion=v{VERSION} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    for name in PROGRAMS:
        go("build", "-p", "2", "-ldflags", flags, "-o", str(directory / name), f"k8s.io/kubernetes/cmd/{name}")


class Kubernetes:
    """The cluster in an entered machine; its programs are in `/shared/bin`."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.kubeconfig = machine.shared / "admin.conf"

    def kubectl(self, *arguments: str, check: bool = True, namespace: str = "votes") -> str:
        config = f"--kubeconfig={INSIDE}/admin.conf"
        return self.machine.run("kubectl", config, f"--namespace={namespace}", *arguments, check=check)

    def get(self, *arguments: str) -> Any:
        return json.loads(self.kubectl("get", *arguments, "--output=json"))

    def apply(self, *objects: dict[str, Any]) -> None:
        file = self.machine.shared / "objects.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        self.kubectl("apply", f"--filename={INSIDE}/objects.json")

    def start(self, archive: Path) -> None:
        """Start all servers, with the images of an archive in the shared directory, and wait for the nodes."""
        machine = self.machine
        machine.run("sh", "-ec", NETWORK)
        self._write_files()
        programs = f"{INSIDE}/bin"
        names = [f"--address=/{name}.votes.svc.cluster.local/{address}" for name, address in FIXED.items()]
        servers = {
            "etcd": ["etcd", "--data-dir=/run/etcd", "--unsafe-no-fsync"],
            "dnsmasq": [
                "dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts", "--bind-interfaces", "--user=root",
                f"--listen-address={ADDRESS}", *names,
            ],
            "kube-apiserver": [
                f"{programs}/kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--cert-dir=/run/apiserver",
                f"--advertise-address={ADDRESS}", f"--service-cluster-ip-range={SERVICES}",
                f"--token-auth-file={INSIDE}/tokens.csv", "--authorization-mode=Node,RBAC", "--allow-privileged",
                f"--service-account-key-file={INSIDE}/sa.key", f"--service-account-issuer={SERVER}",
                f"--service-account-signing-key-file={INSIDE}/sa.key",
                "--kubelet-preferred-address-types=InternalIP",
            ],
        }  # fmt: skip
        for name, command in servers.items():
            machine.start(name, *command)
        _until(lambda: self.kubectl("get", "--raw=/readyz", check=False).strip() == "ok", "kube-apiserver")
        servers = {
            "kube-controller-manager": [
                f"--kubeconfig={INSIDE}/kube-controller-manager.conf", "--use-service-account-credentials",
                f"--service-account-private-key-file={INSIDE}/sa.key", f"--root-ca-file={INSIDE}/ca.crt",
                "--leader-elect=false",
            ],
            "kube-scheduler": [f"--kubeconfig={INSIDE}/kube-scheduler.conf", "--leader-elect=false"],
            "kube-proxy": [f"--config={INSIDE}/kube-proxy.json"],
        }  # fmt: skip
        for name, options in servers.items():
            machine.start(name, f"{programs}/{name}", *options)
        for number, node in enumerate(NODES):
            self._start_node(node, f"{SUBNET}.{number + 1}", archive)
        _until(self._is_ready, "nodes")

    def _start_node(self, node: str, address: str, archive: Path) -> None:
        machine = self.machine
        machine.start(f"containerd-{node}", "containerd", f"--config={INSIDE}/containerd-{node}.toml")
        runtime = ("ctr", f"--address=/run/containerd-{node}/containerd.sock")
        _until(lambda: "Server:" in machine.run(*runtime, "version", check=False), f"containerd of {node}")
        machine.run(*runtime, "--namespace=k8s.io", "images", "import", f"{INSIDE}/{archive.name}")
        machine.start(
            f"kubelet-{node}", f"{INSIDE}/bin/kubelet", f"--config={INSIDE}/kubelet-{node}.json",
            f"--kubeconfig={INSIDE}/{node}.conf", f"--root-dir=/var/lib/kubelet-{node}",
            f"--hostname-override={node}", f"--node-ip={address}",
        )  # fmt: skip

    def _is_ready(self) -> bool:
        nodes = self.get("nodes")["items"]
        states = [
            each["status"] for node in nodes for each in node["status"]["conditions"] if each["type"] == "Ready"
        ]
        return states == ["True"] * len(NODES)

    def _write_files(self) -> None:
        shared = self.machine.shared
        rows = [f'token-{name},{user},{user},"{group}"\n' for name, (user, group) in USERS.items()]
        (shared / "tokens.csv").write_text("".join(rows))
        self.machine.run("openssl", "genrsa", "-out", f"{INSIDE}/sa.key", "2048")
        request = ["-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=ca", "-days", "9"]
        self.machine.run(
            "openssl", "req", *request, "-keyout", f"{INSIDE}/ca.key", "-out", f"{INSIDE}/ca.crt"
        )  # an authority that every pod is told of, and none uses
        for name in USERS:
            (shared / f"{name}.conf").write_text(json.dumps(_kubeconfig(f"token-{name}")))
        proxy = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": f"{INSIDE}/kube-proxy.conf"},
            "mode": "iptables",
            "clusterCIDR": PODS,
            "hostnameOverride": NODES[0],
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        }
        (shared / "kube-proxy.json").write_text(json.dumps(proxy))
        for number, node in enumerate(NODES):
            (shared / f"kubelet-{node}.json").write_text(json.dumps(_kubelet(node, number)))
            (shared / f"containerd-{node}.toml").write_text(CONTAINERD.format(node=node, pause=PAUSE))


def _until(check: Callable[[], bool], what: str, timeout_s: float = 180) -> None:
    deadline = time.monotonic() + timeout_s
    while not check():
        if time.monotonic() > deadline:
            raise CannotRun(f"not ready after {timeout_s:g} s: {what}; its log is in the shared directory")
        time.sleep(0.3)


def _kubeconfig(token: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": SERVER, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }


def _kubelet(node: str, number: int) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix:///run/containerd-{node}/containerd.sock",
        "address": f"{SUBNET}.{number + 1}",
        "port": 10250,
        "healthzPort": 0,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node}",
        "failCgroupV1": False,
        "enforceNodeAllocatable": [],
        "oomScoreAdj": 0,
        "failSwapOn": False,
        "clusterDNS": [ADDRESS],
        "clusterDomain": "cluster.local",
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "podLogsDir": f"/var/log/pods-{node}",
        "staticPodPath": "",
    }


CONTAINERD: Final = """
version = 2
root = "/var/lib/containerd-{node}"
state = "/run/containerd-{node}"
[grpc]
  address = "/run/containerd-{node}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/{pause}"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
"""
NETWORK: Final = f"""
ip link add eth0 type bridge
ip addr add {ADDRESS}/24 dev eth0
ip addr add {SUBNET}.2/24 dev eth0
ip link set eth0 up
ip route add default via {SUBNET}.254
echo 1 > /proc/sys/net/ipv4/ip_forward
mkdir -p /etc/cni/net.d
cat > /etc/cni/net.d/10-pods.conflist <<END
{{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
   "ipam": {{"type": "host-local", "ranges": [[{{"subnet": "{PODS}"}}]], "routes": [{{"dst": "0.0.0.0/0"}}]}}}},
  {{"type": "portmap", "capabilities": {{"portMappings": true}}}}]}}
END
rm -rf /var/lib/cni /var/lib/kubelet-* /var/lib/containerd-*
for group in /sys/fs/cgroup/*/; do mkdir -p "$group"{NODES[0]} "$group"{NODES[1]} 2>/dev/null || true; done
for name in cpus mems; do
  for node in {NODES[0]} {NODES[1]}; do
    cat /sys/fs/cgroup/cpuset/cpuset.$name > /sys/fs/cgroup/cpuset/$node/cpuset.$name || true
  done
done
"""
