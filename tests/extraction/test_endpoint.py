"""Servers as they are: TensorFlow Serving and the Open Inference Protocol on a real socket."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import provenet as pn
from helpers import is_a_sentence
from provenet.cli import app as cli
from provenet.extraction.oracle import open_oracle

pytest.importorskip("urllib3")

NET = pn.random_network(2, 3, outputs=2, rng=0)
X = np.random.default_rng(0).standard_normal((10, 3))
TF = '{"instances": {inputs}}'
V2 = (
    '{"inputs": [{"name": "x", "shape": [{rows}, {features}], "datatype": "FP64", "data": {data}}]}'
)


def tensorflow(body: Any) -> Any:
    """`instances`, one a row, to `predictions`, one a row."""
    assert list(body) == ["instances"]
    return {"predictions": NET(np.array(body["instances"])).tolist()}


def tensorflow_named(body: Any) -> Any:
    """The same of a model with several outputs: an object a row."""
    y = NET(np.array(body["instances"])).tolist()
    return {"predictions": [{"dense": row, "other": [0.0]} for row in y]}


def inference(body: Any) -> Any:
    """KServe v2 and Triton: tensors by name, with shape and type, flat in row-major order."""
    (given,) = body["inputs"]
    assert (given["name"], given["datatype"]) == ("x", "FP64")
    assert all(isinstance(value, float) for value in given["data"])
    y = NET(np.array(given["data"]).reshape(given["shape"]))
    output = {"name": "y", "shape": list(y.shape), "datatype": "FP64", "data": y.ravel().tolist()}
    return {"model_name": "m", "outputs": [output]}


def mlflow(body: Any) -> Any:
    table = body["dataframe_split"]
    assert table["columns"] == ["a", "b", "c"]
    return {"predictions": NET(np.array(table["data"])).tolist()}


def bento(body: Any) -> Any:
    return NET(np.array(body["input_data"])).tolist()


SERVERS: dict[str, Callable[[Any], Any]] = {
    "/v1/models/m:predict": tensorflow,
    "/v1/models/named:predict": tensorflow_named,
    "/v2/models/m/infer": inference,
    "/invocations": mlflow,
    "/bento": bento,
}
HOW: dict[str, tuple[Any, str]] = {
    "/v1/models/m:predict": (TF, "predictions"),
    "/v1/models/named:predict": (TF, "predictions.dense"),
    "/v2/models/m/infer": (V2, "outputs.0.data"),
    "/invocations": (
        {"dataframe_split": {"columns": ["a", "b", "c"], "data": "{inputs}"}},
        "predictions",
    ),
    "/bento": ('{"input_data": {inputs}}', ""),
}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server: Any = self.server
        server.headers.append(dict(self.headers))
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        secret = self.headers.get("Authorization", "")
        code, text = 200, ""
        path = self.path.partition("?")[0]
        if path == "/closed":
            code, text = 401, f"no entry with {secret} and {self.headers.get('X-Key')}"
        else:
            text = json.dumps(SERVERS[path](body))
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def served() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.headers = []
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=partial(server.serve_forever, poll_interval=0.01))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.mark.parametrize("path", HOW)
def test_servers_are_asked_as_they_are(path: str, served: Any) -> None:
    request, answer = HOW[path]
    oracle = open_oracle(pn.Endpoint(f"{served.url}{path}", request, answer), 3)
    np.testing.assert_array_equal(oracle.ask(X), NET(X))
    np.testing.assert_array_equal(oracle.ask(X[:1] + 1), NET(X[:1] + 1))


@pytest.mark.parametrize("path", ["/v1/models/m:predict", "/v2/models/m/infer"])
def test_a_network_is_extracted_from_the_command_line(
    path: str, served: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request, answer = HOW[path]
    NET.save(tmp_path / "truth.npz")
    how = ["--request", request, "--answer", answer, "--truth", str(tmp_path / "truth.npz")]
    with pytest.raises(SystemExit) as end:
        cli.app(["extract", f"{served.url}{path}", "--features", "3", "--json", *how])
    result = json.loads(capsys.readouterr().out)
    assert end.value.code == 0 and result["status"] == "exact"
    assert result["parameter_error"] < 1e-9


def test_questions_are_rounded_for_a_server_in_single_precision(served: Any) -> None:
    endpoint = pn.Endpoint(f"{served.url}/v1/models/m:predict", TF, "predictions", dtype="float32")
    oracle = open_oracle(endpoint, 3)
    single = X.astype(np.float32).astype(float)
    assert oracle.input_dtype == np.float32
    np.testing.assert_array_equal(oracle.ask(X), NET(single))


def test_headers_and_tokens_are_sent_and_nowhere_else(
    served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_TOKEN", "hunter2")
    cache = tmp_path / "answers"
    endpoint = partial(pn.Endpoint, headers={"X-Key": "swordfish"}, token_env="MODEL_TOKEN")
    asked = endpoint(f"{served.url}/v1/models/m:predict", TF, "predictions")
    open_oracle(asked, 3, cache=cache).ask(X)
    sent = served.headers[-1]
    assert (sent["Authorization"], sent["X-Key"]) == ("Bearer hunter2", "swordfish")
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(endpoint(f"{served.url}/closed"), 3).ask(X)
    is_a_sentence(error, "HTTP 401", "no entry with *** and ***")
    shown = repr(asked).encode() + str(error.value).encode() + cache.read_bytes()
    assert b"hunter2" not in shown and b"swordfish" not in shown
    # Another token asks the same model; another template does not.
    monkeypatch.setenv("MODEL_TOKEN", "other")
    assert open_oracle(asked, 3, cache=cache).ask(X).shape == (10, 2)
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(pn.Endpoint(asked.url, TF, "predictions.0"), 3, cache=cache)
    is_a_sentence(error, "another HTTP endpoint")
    monkeypatch.delenv("MODEL_TOKEN")
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(asked, 3)
    is_a_sentence(error, "The variable MODEL_TOKEN holds no token")


def test_a_report_shows_no_secrets(
    served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jinja2")
    address = f"{served.url}/v1/models/m:predict?key=hunter2"
    args = ["extract", address, "--features", "3", "--request", TF, "--answer", "predictions"]
    args += ["--header", "X-Key: swordfish", "--report", str(tmp_path / "page.html"), "--quiet"]
    monkeypatch.setattr("sys.argv", ["provenet", *args])
    with pytest.raises(SystemExit) as end:
        cli.app(args)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert end.value.code == 0 and "X-Key: ***" in page
    assert "swordfish" not in page and "hunter2" not in page


UNFIT: dict[str, dict[str, Any]] = {
    "request must say where inputs go": {"request": '{"instances": []}'},
    "request is not JSON once inputs are in it": {"request": '{"instances": {inputs}'},
    "dtype must be float32 or float64, not 'float16'": {"dtype": "float16"},
    "answer must be a path": {"answer": 3},
    "A header must be a name and a text of one line": {"headers": {"X": "a\nb"}},
    "headers must be names and texts": {"headers": "X: a"},
    "is not an address": {"url": "http://user@host/"},
    "'ftp://host/' is not an address": {"url": "ftp://host/"},
    "3 is not an address": {"url": 3},
}


@pytest.mark.parametrize("what", UNFIT)
def test_what_cannot_work_is_told_before_anything_is_asked(what: str) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        pn.Endpoint(**{"url": "http://host/", **UNFIT[what]})
    is_a_sentence(error, what)


NOWHERE = {
    "predictions.17": '{"predictions": [[',
    "outputs": '{"predictions": [[',
    "predictions.0.0": "it must answer JSON, a list at predictions.0.0, with one number",
}


@pytest.mark.parametrize("answer", NOWHERE)
def test_a_path_that_leads_nowhere_is_told(answer: str, served: Any) -> None:
    endpoint = pn.Endpoint(f"{served.url}/v1/models/m:predict", TF, answer)
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(endpoint, 3).ask(X)
    is_a_sentence(error, NOWHERE[answer])


@pytest.mark.parametrize(
    "args, words",
    [
        (("--header", "no colon"), "A header is a name and a text"),
        (("--request", "{}"), "request must say where inputs go"),
        (("--token-env", "NO_SUCH_VARIABLE"), "The variable NO_SUCH_VARIABLE holds no token"),
    ],
)
def test_bad_options_are_one_sentence(
    args: tuple[str, str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        cli.app(["extract", "http://127.0.0.1:1/", "--features", "3", *args])
    assert end.value.code == 2 and re.search(words, capsys.readouterr().err)


def test_files_take_no_templates(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.app(["extract", "m.onnx", "--answer", "y"])
    assert end.value.code == 2 and "m.onnx is a file" in capsys.readouterr().err


def test_the_package_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "urllib3", None)
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle("http://host/?key=hunter2", 3)
    is_a_sentence(error, 'http://host/ needs the package urllib3: pip install "provenet[http]"')
