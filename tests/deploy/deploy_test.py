#!/usr/bin/env python3
"""Checks the deployment files as far as that goes without a container engine or a cluster.

usage: deploy_test.py BUILD_DIR      (exit code 77: python3-yaml is missing)
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request

try:
    import yaml
except ImportError:
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
BUILD = pathlib.Path()


def documents(path):
    return [each for each in yaml.safe_load_all(path.read_text()) if each is not None]


def documented_metrics():
    """Names in the tables of deploy/prometheus/README.md; "_loss" continues the row's first name."""
    names = set()
    for row in (DEPLOY / "prometheus/README.md").read_text().splitlines():
        cell = row.split("|")[1] if row.startswith("| `braid_") else ""
        base = None
        for name in re.findall(r"`([a-z_0-9]+)`", cell):
            if name.startswith("braid_"):
                base = "_".join(name.split("_")[:2])
                names.add(name)
            elif base:
                names.add(base + name)
    return names


def used_metrics(text):
    return set(re.findall(r"\bbraid_[a-z_]+", text))


def braidd_commands():
    """(where, argument vector) of every service of ours."""
    compose = documents(ROOT / "docker-compose.yml")[0]
    for name, service in compose["services"].items():
        if service.get("command", [""])[0] == "braidd":
            yield f"docker-compose.yml: {name}", service["command"]
    for document in documents(DEPLOY / "kubernetes/braidd.yaml"):
        if document["kind"] == "Deployment":
            container = document["spec"]["template"]["spec"]["containers"][0]
            yield "kubernetes/braidd.yaml", container["command"] + container["args"]


def moved(command, home):
    """The command with loopback and free ports for its addresses and other directories."""
    arguments = [str(BUILD / "bin" / command[0])]
    for option, value in zip(command, command[1:]):
        if option in ("--home", "--allow"):
            value = home
        elif option in ("--listen", "--metrics"):
            value = "127.0.0.1:0"
        arguments.append(value)
    return arguments


class FilesTest(unittest.TestCase):
    def test_everything_parses(self):
        files = [path for path in DEPLOY.rglob("*") if path.suffix in (".yaml", ".yml", ".json")]
        self.assertGreater(len(files), 8)
        for path in files + [ROOT / "docker-compose.yml"]:
            with self.subTest(path=path.name):
                self.assertTrue(documents(path))

    def test_compose_mounts_and_builds_what_is_there(self):
        compose = documents(ROOT / "docker-compose.yml")[0]
        for name, service in compose["services"].items():
            with self.subTest(service=name):
                for volume in service.get("volumes", []):
                    source = volume.split(":")[0]
                    exists = (ROOT / source).exists() if "/" in source else source in compose["volumes"]
                    self.assertTrue(exists, source)
                for network in service.get("networks", []):
                    self.assertIn(network, compose["networks"])
                for other in service.get("depends_on", []):
                    self.assertIn(other, compose["services"])
                for port in service.get("ports", []):
                    self.assertTrue(port.startswith("127.0.0.1:"), port)
                if "build" in service:
                    self.assertTrue((ROOT / service["build"]["dockerfile"]).exists())

    def test_control_planes_serve_every_command(self):
        source = (ROOT / "cli/braidd_program.cc").read_text()
        default = re.search(r'std::string services = "([a-z,]+)"', source).group(1)
        planes = [(where, command) for where, command in braidd_commands() if "--metrics" in command]
        self.assertEqual(len(planes), 2)
        for where, command in planes:
            with self.subTest(where=where):
                self.assertEqual(command[command.index("--services") + 1], default)

    def test_prometheus_scrapes_the_services_of_compose(self):
        scraped = documents(DEPLOY / "prometheus/prometheus.yml")[0]["scrape_configs"][0]
        command = documents(ROOT / "docker-compose.yml")[0]["services"]["braidd"]["command"]
        port = command[command.index("--metrics") + 1].split(":")[1]
        self.assertEqual(scraped["static_configs"][0]["targets"], [f"braidd:{port}"])

    def test_dockerfile_copies_what_is_there_and_runs_as_nobody_special(self):
        text = (DEPLOY / "Dockerfile").read_text()
        for source in re.findall(r"^COPY (?:--chown=\S+ )?(deploy/\S+)", text, re.M):
            self.assertTrue((ROOT / source).exists(), source)
        self.assertRegex(text, r"(?m)^USER braid$")
        self.assertIn("HEALTHCHECK", text)
        self.assertIn("deploy/install-dependencies.sh", text)

    def test_the_image_is_what_the_manifest_of_a_run_expects(self):
        header = (ROOT / "control/launch/kubernetes_manifest.h").read_text()
        source = (ROOT / "control/launch/kubernetes_manifest.cc").read_text()
        text = (DEPLOY / "Dockerfile").read_text()
        self.assertIn('kImageTrainer = "/usr/local/bin/braid-trainer"', header)
        self.assertIn("/installed cmake --install build --prefix /usr/local ", text)
        self.assertIn('kSshdConfig[] = "/home/braid/sshd_config"', source)
        self.assertIn("deploy/ssh/sshd_config /home/braid/sshd_config", text)
        self.assertIn("kImageUser = 1000", source)
        self.assertIn("--uid 1000", text)
        hosts = (DEPLOY / "ssh/sshd_config").read_text()
        self.assertIn("/home/braid/.ssh/authorized_keys", hosts)
        self.assertIn('kSshDirectory[] = "/home/braid/.ssh"', source)
        for side in ("ssh_config", "sshd_config"):
            self.assertIn("Port 2222", (DEPLOY / "ssh" / side).read_text())

    def test_the_unit_leaves_openat2_to_braidd(self):
        unit = (DEPLOY / "systemd/braidd.service").read_text()
        settings = [line.split("=")[0] for line in unit.splitlines() if not line.startswith("#")]
        # Both install a seccomp filter under which openat2 does not exist.
        self.assertNotIn("DynamicUser", settings)
        self.assertNotIn("RestrictSUIDSGID", settings)
        user = re.search(r"(?m)^User=(.*)$", unit).group(1)
        self.assertRegex((DEPLOY / "debian/postinst").read_text(), rf"useradd --system .* {user}\n")

    def test_an_installed_unit_starts_the_installed_braidd(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["cmake", "--install", BUILD, "--component", "programs", "--prefix", folder],
                           stdout=subprocess.DEVNULL, check=True, timeout=120)
            unit = (pathlib.Path(folder) / "lib/systemd/system/braidd.service").read_text()
            program = re.search(r"(?m)^ExecStart=(\S+) ", unit).group(1)
            self.assertEqual(program, f"{folder}/bin/braidd")
            self.assertTrue(os.access(program, os.X_OK))

    def test_grace_periods_allow_the_longest_shutdown(self):
        source = (ROOT / "cli/braidd_program.cc").read_text()
        longest = sum(int(re.search(pattern, source).group(1)) for pattern in (
            r"kLastPatience\{(\d+)\}", r"kStopRunsLimit\{(\d+)\}", r"drain_seconds = (\d+)"))
        self.assertGreaterEqual(longest, 110)
        compose = (ROOT / "docker-compose.yml").read_text()
        periods = [60 * int(re.search(r"stop_grace_period: (\d+)m\n", compose).group(1))]
        for path, name in (("kubernetes/braidd.yaml", "terminationGracePeriodSeconds: "),
                           ("systemd/braidd.service", "TimeoutStopSec=")):
            periods.append(int(re.search(name + r"(\d+)\n", (DEPLOY / path).read_text()).group(1)))
        self.assertGreater(min(periods), longest, periods)

    def test_an_upgrade_of_the_package_restarts_the_service(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "postinst"
            text = (DEPLOY / "debian/postinst").read_text()
            self.assertIn("-d /run/systemd/system", text)
            script.write_text(text.replace("-d /run/systemd/system", f"-d {folder}"))
            for name, body in (("systemctl", f'echo "$*" >> {folder}/calls'), ("getent", "exit 0")):
                program = pathlib.Path(folder) / name
                program.write_text(f"#!/bin/sh\n{body}\n")
                program.chmod(0o755)
            for arguments, restarts in ((["configure", ""], 0), (["configure", "0.0.9"], 1)):
                subprocess.run(["sh", script, *arguments], env={"PATH": f"{folder}:/usr/bin:/bin"},
                               check=True, timeout=30)
                calls = (pathlib.Path(folder) / "calls").read_text()
                self.assertEqual(calls.count("try-restart braidd.service"), restarts, calls)

    def test_presets_of_tests_leave_out_what_the_test_command_leaves_out(self):
        left_out = re.search(r"-LE '(\S+)'", (ROOT / "tests/run.sh").read_text()).group(1)
        presets = json.loads((ROOT / "CMakePresets.json").read_text())["testPresets"]
        base = next(preset for preset in presets if preset["name"] == "base")
        self.assertEqual(base["filter"]["exclude"]["label"], left_out)
        self.assertGreater(len(presets), 4)
        for preset in presets:
            if preset is not base:
                self.assertEqual(preset["inherits"], "base", preset["name"])
                self.assertNotIn("exclude", preset.get("filter", {}), preset["name"])

    def test_metrics_are_documented(self):
        known = documented_metrics()
        self.assertIn("braid_run_loss", known)
        for path in ("grafana/dashboards/braid.json", "prometheus/alerts.yml"):
            used = used_metrics((DEPLOY / path).read_text())
            self.assertGreater(len(used), 3, path)
            self.assertEqual(used - known, set(), path)

    def test_states_in_alerts_are_label_values(self):
        families = (ROOT / "server/prometheus_families.cc").read_text()
        self.assertIn("StateLabel", families)
        states = set()
        for proto in ("pipeline", "training"):
            text = (ROOT / f"proto/braid/v1/{proto}.proto").read_text()
            states |= {each.lower() for each in re.findall(r"^  (?:JOB|RUN)_([A-Z]+) = ", text, re.M)}
        used = re.findall(r'state=~?"([^"]+)"', (DEPLOY / "prometheus/alerts.yml").read_text())
        self.assertGreater(len(used), 3)
        for state in "|".join(used).split("|"):
            self.assertIn(state, states)

    def test_kubernetes_objects_share_the_namespace_and_find_each_other(self):
        objects = [each for path in (DEPLOY / "kubernetes").glob("*.yaml")
                   if path.name != "kustomization.yaml" for each in documents(path)]
        by_kind = {}
        for each in objects:
            by_kind.setdefault(each["kind"], []).append(each)
            if each["kind"] != "Namespace":
                self.assertEqual(each["metadata"]["namespace"], "braid")
        pod = by_kind["Deployment"][0]["spec"]["template"]
        self.assertEqual(by_kind["Service"][0]["spec"]["selector"], pod["metadata"]["labels"])
        claim = pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
        self.assertEqual(claim, by_kind["PersistentVolumeClaim"][0]["metadata"]["name"])
        self.assertEqual(pod["spec"]["serviceAccountName"],
                         by_kind["ServiceAccount"][0]["metadata"]["name"])
        rules = by_kind["Role"][0]["rules"]
        self.assertEqual([rule["resources"] for rule in rules], [["mpijobs"]])
        listed = documents(DEPLOY / "kubernetes/kustomization.yaml")[0]["resources"]
        files = {path.name for path in (DEPLOY / "kubernetes").glob("*.yaml")}
        self.assertEqual(set(listed), files - {"kustomization.yaml"})

    @unittest.skipUnless(shutil.which("kubectl"), "kubectl is not installed")
    def test_kubectl_reads_the_manifests(self):
        built = subprocess.run(["kubectl", "kustomize", DEPLOY / "kubernetes"], capture_output=True,
                               text=True, timeout=60, check=False)
        self.assertEqual(built.returncode, 0, built.stderr)
        self.assertIn("kind: Deployment", built.stdout)


class ConfigureTest(unittest.TestCase):
    def failure(self, *options):
        with tempfile.TemporaryDirectory() as build:
            configured = subprocess.run(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", *options],
                                        capture_output=True, text=True, timeout=120, check=False)
        self.assertNotEqual(configured.returncode, 0, configured.stdout)
        return " ".join(configured.stderr.split())

    def test_a_missing_library_is_named_with_what_installs_it(self):
        message = self.failure("-DCMAKE_DISABLE_FIND_PACKAGE_Protobuf=ON")
        self.assertIn("Protobuf was not found: run deploy/install-dependencies.sh", message)

    def test_generated_sources_wait_for_no_library(self):
        rules = (BUILD / "build.ninja").read_text()
        edges = re.findall(r"^build \S*/embedded_\w+\.cc .*: CUSTOM_COMMAND .*$", rules, re.M)
        self.assertEqual(len(edges), 3)
        for edge in edges:
            self.assertNotIn(".a", edge.partition(" || ")[2])

    def test_sanitizers_that_exclude_each_other_are_refused(self):
        message = self.failure("-DBRAID_TSAN=ON", "-DBRAID_ASAN_UBSAN=ON")
        self.assertIn("BRAID_ASAN_UBSAN, BRAID_TSAN and BRAID_FUZZ exclude each other", message)


class CommandsTest(unittest.TestCase):
    def test_services_start_and_stop_with_their_commands(self):
        commands = list(braidd_commands())
        self.assertEqual(len(commands), 6)
        for where, command in commands:
            with self.subTest(where=where), tempfile.TemporaryDirectory() as home:
                service = subprocess.Popen(moved(command, home), stdout=subprocess.PIPE,
                                           stderr=subprocess.STDOUT, text=True)
                try:
                    line = service.stdout.readline()
                    self.assertIn("braidd serves", line)
                    address = re.search(r"127\.0\.0\.1:\d+", line).group()
                    asked = subprocess.run([BUILD / "bin/braid", "--server", address, "health"],
                                           capture_output=True, text=True, timeout=30, check=False)
                    self.assertEqual((asked.stdout, asked.returncode), ("SERVING\n", 0), asked.stderr)
                finally:
                    service.send_signal(signal.SIGTERM)
                    rest = service.communicate(timeout=30)[0]
                self.assertEqual(service.returncode, 0, rest)

    def test_every_metric_of_alerts_and_dashboard_is_served(self):
        with tempfile.TemporaryDirectory() as home:
            service = subprocess.Popen(
                [BUILD / "bin/braidd", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--home", home],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            try:
                url = None
                while url is None:
                    line = service.stdout.readline()
                    self.assertTrue(line, "braidd ended")
                    url = re.search(r"http://127\.0\.0\.1:\d+/metrics", line)
                with urllib.request.urlopen(url.group(), timeout=30) as response:
                    served = set(re.findall(r"^# TYPE (\S+)", response.read().decode(), re.M))
            finally:
                service.send_signal(signal.SIGTERM)
                service.communicate(timeout=30)
        for path in ("grafana/dashboards/braid.json", "prometheus/alerts.yml"):
            used = used_metrics((DEPLOY / path).read_text())
            self.assertEqual(used - served, set(), path)

    def test_log_rotation_signals_what_the_service_reloads_with(self):
        service = (DEPLOY / "systemd/braidd.service").read_text()
        self.assertIn("ExecReload=/bin/kill -HUP $MAINPID", service)
        self.assertIn("Restart=on-failure", service)
        self.assertIn("--signal=HUP braidd.service", (DEPLOY / "logrotate/braidd").read_text())

    def test_runtime_packages_cover_the_programs(self):
        programs = sorted((BUILD / "bin").glob("braid*"))
        listed = subprocess.run([DEPLOY / "runtime-packages.sh", *programs], capture_output=True,
                                text=True, timeout=120, check=True).stdout.split()
        for package in ("libc6", "libstdc++6"):
            self.assertIn(package, listed)
        self.assertTrue([each for each in listed if each.startswith("libgrpc++")], listed)
        owned = subprocess.run(["dpkg-query", "-W", "-f=${db:Status-Status}\n", *listed],
                               capture_output=True, text=True, check=False)
        self.assertEqual(set(owned.stdout.split()), {"installed"}, owned.stderr)

    def test_runtime_packages_fail_without_a_library_or_a_program(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "braid-supervisor"
            code = (BUILD / "bin/braid-supervisor").read_bytes()
            self.assertIn(b"libstdc++.so.6", code)
            program.write_bytes(code.replace(b"libstdc++.so.6", b"libstdc++.so.9"))
            program.chmod(0o755)
            for path, message in ((program, "libstdc++.so.9 => not found"),
                                  (pathlib.Path(folder) / "nowhere", "nowhere: No such file")):
                listed = subprocess.run([DEPLOY / "runtime-packages.sh", BUILD / "bin/braidd", path],
                                        capture_output=True, text=True, timeout=120, check=False)
                self.assertEqual((listed.returncode, listed.stdout), (1, ""), path)
                self.assertIn(message, listed.stderr)


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
