"""Whoever is asked: real ONNX models, and a real server on localhost that misbehaves."""

from __future__ import annotations

import json
import socket
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import formatdate
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import provenet as pn
from helpers import is_a_sentence
from provenet.common.exceptions import EndpointLost, TimeSpent
from provenet.common.typing import Array
from provenet.extraction import deadline
from provenet.extraction.clients import http as http_module
from provenet.extraction.clients.http import HttpClient
from provenet.extraction.oracle import Oracle, open_oracle

NET = pn.random_network(4, 3, rng=0).replace(output_bias=0.4)
NETS = {"one output": NET, "two outputs": pn.random_network(4, 3, outputs=2, rng=0)}
X = np.random.default_rng(0).standard_normal((10, 3))
SINGLE, DOUBLE = TensorProto.FLOAT, TensorProto.DOUBLE


# A server that follows a script: one act a request, and right answers when the script is over.

Act = Callable[["Handler", Array], None]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server: Any = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        inputs = np.array(body["inputs"])
        server.asked.append(inputs)
        act = server.script.pop(0) if server.script else right
        act(self, inputs)

    def say(self, text: str, status: int = 200, **headers: str) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def right(handler: Handler, inputs: Array) -> None:
    net = handler.server.net  # type: ignore[attr-defined]
    handler.say(json.dumps({"outputs": net(inputs).tolist()}))


def says(text: str, status: int = 200, **headers: str) -> Act:
    return lambda handler, inputs: handler.say(text, status, **headers)


def answers(change: Callable[[list[Any]], Any]) -> Act:
    """The right answers, spoilt."""
    return lambda handler, inputs: handler.say(
        json.dumps({"outputs": change(NET(inputs).tolist())})
    )


def drops(handler: Handler, inputs: Array) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def breaks_off(handler: Handler, inputs: Array) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"outputs": [1.0, 2.')


def breaks_off_without_a_length(handler: Handler, inputs: Array) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(b'{"outputs": [1.0, 2.')


def is_slow(handler: Handler, inputs: Array) -> None:
    handler.server.leave.wait(5)  # type: ignore[attr-defined]


def trickles(handler: Handler, inputs: Array, text: bytes = b" ") -> None:
    """Something every few milliseconds, so that no single read is ever slow."""
    leave = handler.server.leave  # type: ignore[attr-defined]
    try:
        handler.wfile.write(b"HTTP/1.0 200 OK\r\n")
        for _ in range(500):
            if leave.wait(0.02):
                break
            handler.wfile.write(text)
    except OSError:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, net: pn.Network) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.net, self.script = net, list[Act]()
        self.asked: list[Array] = []
        self.leave = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}/predict"

    def handle_error(self, *_: Any) -> None:
        """Connections that the client gave up are what is tested here."""

    @property
    def sizes(self) -> list[int]:
        return [len(inputs) for inputs in self.asked]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture(scope="module", params=NETS)
def _running(request: pytest.FixtureRequest) -> Iterator[Server]:
    yield from _serving(NETS[request.param])


@pytest.fixture(scope="module")
def _single() -> Iterator[Server]:
    yield from _serving(NET)


def _serving(net: pn.Network) -> Iterator[Server]:
    server = Server(net)
    thread = threading.Thread(target=partial(server.serve_forever, poll_interval=0.01))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def server(_single: Server) -> Iterator[Server]:
    _single.script.clear()
    _single.asked.clear()
    _single.leave.clear()
    yield _single
    _single.leave.set()


class Waits(list[float]):
    """Takes the place of `time.sleep`."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def http_oracle(server: Server, waits: Waits, cache: Path | None = None, **options: Any) -> Oracle:
    return Oracle(HttpClient(server.url, 3, sleep=waits, **options), cache=cache)


def test_an_endpoint_is_asked_to_the_last_digit(_running: Server, tmp_path: Path) -> None:
    for _ in range(2):
        oracle = open_oracle(_running.url, 3, cache=tmp_path / "answers")
        np.testing.assert_array_equal(oracle.ask(X), _running.net(X))
    assert oracle.outputs == _running.net.outputs
    # Once, bit by bit; and the first again, since another model may have this address by now.
    np.testing.assert_array_equal(np.concatenate(_running.asked), np.vstack([X, X[:8]]))
    assert (oracle.queries, oracle.cached) == (8, 10)


FAILURES: dict[str, Act] = {
    "the connection was dropped": drops,
    "its answer broke off": breaks_off,
    "its answer broke off ": breaks_off_without_a_length,
    "HTTP 500 Internal Server Error": says("oh", 500),
    "HTTP 503 Service Unavailable": says("", 503),
    "HTTP 429 Too Many Requests": says("slowly", 429),
    "it does not speak HTTP": lambda handler, _: handler.wfile.write(b"220 mail ready\r\n"),
}


@pytest.mark.parametrize("what", FAILURES)
def test_failures_that_may_pass_are_tried_again(what: str, server: Server) -> None:
    server.script += [FAILURES[what]] * 3
    waits = Waits()
    oracle = http_oracle(server, waits)
    np.testing.assert_array_equal(oracle.ask(X), NET(X))
    assert waits == [0.5, 1.0, 2.0] and server.sizes == [10] * 4
    assert oracle.queries == 10  # answers are counted, not tries


@pytest.mark.parametrize("what", FAILURES)
def test_an_endpoint_that_stays_away_ends_the_run(
    what: str, server: Server, tmp_path: Path
) -> None:
    waits, cache = Waits(), tmp_path / "answers"
    client = HttpClient(server.url, 3, retries=2, sleep=waits)
    client.batch = 4
    server.script += [right, *[FAILURES[what]] * 3]
    with pytest.raises(EndpointLost) as error:
        Oracle(client, cache=cache).ask(X)
    message = f"answered 4 queries, then failed 3 times ({what.strip()}"
    is_a_sentence(error, server.url, message, f"kept in {cache}; run the same again")
    assert waits == [0.5, 1.0]
    again = http_oracle(server, waits, cache)
    np.testing.assert_array_equal(again.ask(X), NET(X))
    assert (again.queries, again.cached) == (6 + 4, 4)  # four were asked again


@pytest.mark.parametrize(
    "act",
    [is_slow, trickles, partial(trickles, text=b"X-More: 1\r\n"), partial(trickles, text=b"\r\n ")],
    ids=["silent", "in a header", "in headers", "in the body"],
)
def test_every_request_has_a_deadline(act: Act, server: Server) -> None:
    """However little by little a server answers: each single read is quick here.

    Who waits for the end gets another error: the server goes away without a whole answer.
    """
    server.script += [act]
    with pytest.raises(EndpointLost) as error:
        http_oracle(server, Waits(), timeout=0.2, retries=0).ask(X)
    is_a_sentence(error, "failed once (no answer within 0.2 s)", "give it a cache")


def test_no_wait_goes_beyond_the_time_allowed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Waits()
    monkeypatch.setattr(deadline, "now", lambda: sum(waits))  # time passes only in waits
    server.script += [says("", 500)] * 9
    oracle = http_oracle(server, waits, retries=9)
    oracle.deadline = deadline.Deadline.after(4.0)
    with pytest.raises(TimeSpent):
        oracle.ask(X)
    assert waits == [0.5, 1.0, 2.0]  # four more seconds would be too many
    result = pn.extract(http_oracle(server, waits, retries=9), rng=0, seconds=4.0)
    assert result.status is pn.Status.FAILED and "give more time with seconds=" in result.message


def test_nobody_there(server: Server) -> None:
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        waits = Waits()
        with pytest.raises(EndpointLost) as error:
            Oracle(HttpClient(url, 3, sleep=waits)).ask(X)
    is_a_sentence(error, "answered 0 queries, then failed 6 times (Connection refused)")
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize(
    "aim, seconds",
    [("7", 7.0), ("0.1", 0.5), ("100000", 60.0), ("-3", 0.5), ("soon", 0.5), ("nan", 0.5)],
)
def test_the_server_may_say_when_to_come_back(aim: str, seconds: float, server: Server) -> None:
    server.script += [says("", 503, Retry_After=aim)]
    waits = Waits()
    http_oracle(server, waits).ask(X)
    assert waits == [seconds]


def test_the_server_may_name_a_date(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    noon = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC).timestamp()
    monkeypatch.setattr("urllib3.util.retry.time", types.SimpleNamespace(time=lambda: noon))
    at = noon + 30
    server.script += [says("", 429, Retry_After=formatdate(at, usegmt=True))]
    waits = Waits()
    http_oracle(server, waits).ask(X)
    assert waits == [30.0]


def test_waits_do_not_grow_for_ever(server: Server) -> None:
    server.script += [says("", 500)] * 9
    waits = Waits()
    http_oracle(server, waits, retries=9).ask(X)
    assert waits[-3:] == [30.0, 30.0, 30.0]


NONSENSE: dict[str, tuple[Act, str]] = {
    "not JSON": (says("<html>\nhello"), "answered <html> for inputs such as"),
    "nothing": (says(""), "answered no message"),
    "no object": (says("[1, 2]"), "answered [1, 2]"),
    "other object": (says('{"error": "x"}'), 'answered {"error": "x"}'),
    "no list": (says('{"outputs": 3}'), 'answered {"outputs": 3}'),
    "too few": (answers(lambda y: y[:-1]), "9 answers to 10 queries"),
    "too many": (answers(lambda y: [*y, 1.0]), "11 answers to 10 queries"),
    "a string": (answers(lambda y: [*y[:4], "1.5", *y[5:]]), 'answered "1.5" to the query'),
    "null": (answers(lambda y: [*y[:4], None, *y[5:]]), "answered null to the query"),
    "true": (answers(lambda y: [*y[:4], True, *y[5:]]), "answered true to the query"),
    "NaN": (answers(lambda y: [*y[:4], float("nan"), *y[5:]]), "answered NaN to the query"),
    "infinity": (answers(lambda y: [*y[:4], [-np.inf], *y[5:]]), "answered [-Infinity] to"),
    "huge": (answers(lambda y: [*y[:4], 10**400, *y[5:]]), "answered 1000000"),
    "ragged": (answers(lambda y: [*y[:4], [1, 2], *y[5:]]), "answered [1, 2] to the query"),
    "empty rows": (answers(lambda y: [*y[:4], [], *y[5:]]), "answered [] to the query"),
    "nested": (answers(lambda y: [*y[:4], [[1]], *y[5:]]), "answered [[1]] to the query"),
    "too deep": (says("[" * 100_000), "answered [[[["),
    "no text": (lambda h, _: h.say("\x00\ud7ff"), "answered"),
    "not found": (says("no such\nmodel", 404), "HTTP 404 Not Found (no such) for inputs"),
    "bad request": (says("", 400), "HTTP 400 Bad Request (no message)"),
    "moved": (says("", 307, Location="http://there/"), "points to http://there/ (HTTP 307"),
}


@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_is_told_with_its_query_and_not_tried_again(
    what: str, server: Server, tmp_path: Path
) -> None:
    act, words = NONSENSE[what]
    server.script += [act]
    waits = Waits()
    oracle = http_oracle(server, waits, tmp_path / "answers")
    with pytest.raises(pn.InvalidInput) as error:
        oracle.ask(X)
    is_a_sentence(error, server.url, words)
    if "to the query" in words:
        is_a_sentence(error, f"[{X[4, 0]:.6g}, {X[4, 1]:.6g}, {X[4, 2]:.6g}] (number 5 of 10)")
    elif what != "moved":
        is_a_sentence(error, f"[{X[0, 0]:.6g}, " if what not in ("huge", "infinity") else "5 of 10")
    assert waits == [] and server.sizes == [10] and oracle.queries == 0
    assert not (tmp_path / "answers").exists()  # nonsense is not kept


def test_batches_become_smaller_until_the_server_takes_them(server: Server) -> None:
    too_large = says("", 413)
    server.script += [too_large, too_large]
    oracle = http_oracle(server, Waits())
    np.testing.assert_array_equal(oracle.ask(X), NET(X))
    assert server.sizes == [10, 5, 2, 2, 2, 2, 2]
    oracle.ask(X + 1)
    assert server.sizes[7:] == [2] * 5


def test_a_server_that_takes_not_even_one_input(server: Server) -> None:
    server.script += [says("", 413)] * 4
    with pytest.raises(pn.InvalidInput) as error:
        http_oracle(server, Waits()).ask(X)
    assert server.sizes == [10, 5, 2, 1]
    is_a_sentence(error, "HTTP 413", "for the input [")


def test_many_features_make_small_batches() -> None:
    assert HttpClient("http://host/", 3).batch == 1000
    assert HttpClient("http://host/", 784).batch == 63  # about 50,000 numbers
    assert HttpClient("http://host/", 10**6).batch == 1


def test_secrets_are_in_no_message_and_no_file(server: Server, tmp_path: Path) -> None:
    client = HttpClient(f"{server.url}?key=hunter2", 3, retries=0)
    assert client.name == server.url
    oracle = Oracle(client, cache=tmp_path / "answers")
    oracle.ask(X)
    assert b"hunter2" not in (tmp_path / "answers").read_bytes()
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(server.url, 3, cache=tmp_path / "answers")
    is_a_sentence(error, "another HTTP endpoint")


def test_bodies_of_any_length_end(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "MOST_BYTES", 1000)
    server.script += [says(json.dumps({"outputs": [1.0] * 10, "more": "x" * 2000}))]
    with pytest.raises(pn.InvalidInput):
        http_oracle(server, Waits()).ask(X)


# ONNX models, made by hand.


def model(
    path: Path,
    *,
    kind: int = SINGLE,
    rows: Any = "rows",
    net: pn.Network = NET,
    squeeze: bool = False,
    inputs: list[Any] | None = None,
    outputs: list[Any] | None = None,
) -> Path:
    """`relu(X W^T + b) A^T + c` as nodes; `inputs` and `outputs` replace what the file declares."""
    A = np.atleast_2d(net.output_weights)
    arrays = {"W": net.weights.T, "b": net.biases, "A": A.T, "c": np.atleast_1d(net.output_bias)}
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    values = [numpy_helper.from_array(v.astype(dtype), name) for name, v in arrays.items()]
    values.append(numpy_helper.from_array(np.array([1]), "axis"))
    nodes = [
        helper.make_node("Gemm", ["x", "W", "b"], ["z"]),
        helper.make_node("Relu", ["z"], ["h"]),
        helper.make_node("Gemm", ["h", "A", "c"], ["q" if squeeze else "y"]),
    ]
    if squeeze:
        nodes.append(helper.make_node("Squeeze", ["q", "axis"], ["y"]))
    given = inputs or [helper.make_tensor_value_info("x", kind, [rows, net.features])]
    shape = [rows] if squeeze else [rows, len(A)]
    answer = outputs or [helper.make_tensor_value_info("y", kind, shape)]
    graph = helper.make_graph(nodes, "net", given, answer, values)
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(built.SerializeToString())
    return path


@pytest.mark.parametrize("rows", ["rows", None, 1])
@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("kind", [SINGLE, DOUBLE])
def test_an_onnx_model_is_asked(kind: int, name: str, rows: Any, tmp_path: Path) -> None:
    path, net = model(tmp_path / "m.onnx", kind=kind, rows=rows, net=NETS[name]), NETS[name]
    oracle = open_oracle(path)
    dtype = np.float32 if kind == SINGLE else np.float64
    assert (oracle.features, oracle.outputs) == (3, net.outputs)
    assert oracle.input_dtype == oracle.answer_dtype == dtype
    # A few roundings of numbers of a few units.
    np.testing.assert_allclose(oracle.ask(X), net(X), rtol=0, atol=20 * np.finfo(dtype).eps)
    assert oracle.ask(X).dtype == np.float64 and oracle.queries == 10


def test_a_model_of_plain_numbers(tmp_path: Path) -> None:
    oracle = open_oracle(str(model(tmp_path / "m.onnx", kind=DOUBLE, squeeze=True)), 3, outputs=1)
    np.testing.assert_allclose(oracle.ask(X), NET(X), rtol=0, atol=1e-14)
    assert oracle.outputs is None


def test_sizes_that_a_model_does_not_tell(tmp_path: Path) -> None:
    info = partial(helper.make_tensor_value_info, elem_type=DOUBLE)
    free = [info("x", shape=["rows", "columns"])]
    answer = [info("y", shape=None)]
    path = model(tmp_path / "m.onnx", kind=DOUBLE, inputs=free, outputs=answer)
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(path)
    is_a_sentence(error, "number of features")
    np.testing.assert_allclose(open_oracle(path, 3).ask(X), NET(X), rtol=0, atol=1e-14)
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(path, 4).ask([[1, 1, 1, 1], [1, 1, 1, 2]])
    is_a_sentence(error, "m.onnx failed (", "for inputs such as [1, 1, 1, 1]")


def info(name: str, shape: Any, kind: int = SINGLE) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


UNFIT: dict[str, dict[str, Any]] = {
    "has 2 inputs: x (rows, 3) float32, other (1, 3, 224, 224) float32;": {
        "inputs": [info("x", ["rows", 3]), info("other", [1, 3, 224, 224])]
    },
    "has 2 outputs: y (rows, 1) float32, h (rows, 4) float32;": {
        "outputs": [info("y", ["rows", 1]), info("h", ["rows", 4])]
    },
    "input of m.onnx is x (7, 3) float32": {"rows": 7},
    "it must be (rows, features) in float32 or float64": {"kind": TensorProto.FLOAT16},
}


@pytest.mark.parametrize("what", UNFIT)
def test_models_of_other_kinds_are_refused(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(model(Path("m.onnx"), **UNFIT[what]))
    is_a_sentence(error, "m.onnx", what)


def one_node(path: Path, node: Any, given: Any, answer: Any) -> Path:
    graph = helper.make_graph([node], "net", [given], [answer])
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(built.SerializeToString())
    return path


def test_shapes_that_do_not_fit_are_told(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    images = ["rows", 3, 8, 8]
    relu = helper.make_node("Relu", ["x"], ["y"])
    one_node(path, relu, info("x", images), info("y", images))
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(path)
    is_a_sentence(error, "x (rows, 3, 8, 8) float32", "(rows, features)")
    total = helper.make_node("ReduceSum", ["x"], ["y"], keepdims=1)
    one_node(path, total, info("x", ["rows", 3]), info("y", [1, 1]))
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(path)
    is_a_sentence(error, "output", "y (1, 1) float32", "(rows, outputs)")
    kinds = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT64)
    one_node(path, kinds, info("x", ["rows", 3]), info("y", ["rows", 3], TensorProto.INT64))
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(path)
    is_a_sentence(error, "y (rows, 3) tensor(int64)")


def test_a_model_that_answers_infinity(tmp_path: Path) -> None:
    log = helper.make_node("Log", ["x"], ["y"])
    path = one_node(tmp_path / "m.onnx", log, info("x", ["rows", 1]), info("y", ["rows", 1]))
    oracle = open_oracle(path)
    oracle.ask([[1.0], [2.0]])
    with pytest.raises(pn.InvalidInput) as error:
        oracle.ask([[1.0], [3.0], [0.0]])
    is_a_sentence(error, "answered [-inf] to the query [0]", "low=")


def test_sizes_that_disagree_with_the_model(tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx")
    for options, words in (
        ({"features": 4}, "3 features, not 4"),
        ({"outputs": 2}, "1 output, not 2"),
    ):
        with pytest.raises(pn.InvalidInput) as error:
            open_oracle(path, **options)
        is_a_sentence(error, "m.onnx has", words)


def test_files_that_are_no_models(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    whole = model(tmp_path / "m.onnx").read_bytes()
    for content in (b"", b"not a model", whole[: len(whole) // 2]):
        (tmp_path / "bad.onnx").write_bytes(content)
        with pytest.raises(pn.InvalidInput) as error:
            open_oracle(tmp_path / "bad.onnx")
        is_a_sentence(error, "bad.onnx cannot be run by onnxruntime (")
    assert capfd.readouterr() == ("", "")  # the runtime logs nothing


def test_the_cache_knows_an_onnx_model_by_its_bytes(tmp_path: Path) -> None:
    cache = tmp_path / "answers"
    open_oracle(model(tmp_path / "m.onnx"), cache=cache).ask(X)
    moved = open_oracle(model(tmp_path / "moved.onnx"), cache=cache)
    moved.ask(X)
    assert (moved.queries, moved.cached) == (0, 10)
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(model(tmp_path / "m.onnx", net=NET.replace(output_bias=0.5)), cache=cache)
    is_a_sentence(error, "another ONNX model")


def test_weights_beside_the_model_are_part_of_it(tmp_path: Path) -> None:
    cache, path = tmp_path / "answers", tmp_path / "m.onnx"
    for bias in (0.4, 0.5):
        built = onnx.load(model(path, net=NET.replace(output_bias=bias)))
        (tmp_path / "m.onnx.data").unlink(missing_ok=True)
        onnx.save(
            built,
            path,
            save_as_external_data=True,
            location="m.onnx.data",
            size_threshold=0,
            convert_attribute=False,
        )
        if bias == 0.4:
            y = open_oracle(path, cache=cache).ask(X)
            np.testing.assert_allclose(y, NET(X), rtol=0, atol=1e-5)
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(path, cache=cache)
    is_a_sentence(error, "another ONNX model")


def test_a_package_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package, name in (("onnxruntime", "m.onnx"), ("torch", "m.pt")):
        monkeypatch.setitem(__import__("sys").modules, package, None)
        path = model(tmp_path / name)
        with pytest.raises(pn.InvalidInput) as error:
            open_oracle(path, 3)
        is_a_sentence(error, f"{name} needs the package {package}: pip install {package}")


@pytest.mark.filterwarnings("ignore:.*torch.jit")  # of writing the file
def test_a_torchscript_file_is_asked(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "m.pt"
    layers = torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)
    module = torch.nn.Sequential(*layers).double()
    torch.jit.save(torch.jit.script(module), str(path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        oracle = open_oracle(path)  # the first layer tells the features
    expected = module(torch.from_numpy(X)).detach().numpy()[:, 0]
    np.testing.assert_allclose(oracle.ask(X), expected, rtol=0, atol=1e-14)
    assert oracle.input_dtype == np.float64
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(path, 4)
    is_a_sentence(error, "m.pt has 3 features, not 4")
    path.write_bytes(b"not a model")
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(path, 3)
    is_a_sentence(error, "m.pt cannot be read as TorchScript")
