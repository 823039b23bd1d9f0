"""Runs a contender that is a Python program: PyTorch's own computation of a task, or a file with prepare().

Called by python.cpp in a device worker. Every function that it calls returns (code, value), where a code other than
OK comes with a text for people.
"""

import contextlib
import ctypes
import functools
import importlib.util
import inspect
import os
import sys
import time
import traceback

OK, UNSUPPORTED, FAILED, UNUSABLE = 0, 1, 2, 3
WARM_UPS = 3  # the allocator and the libraries have then seen a launch whose predecessor has freed its results
KEPT_PROGRAMS = 64

# name of a dtype: its name in PyTorch, and the code and bits that DLPack gives it. PyTorch has no view of all types by
# DLPack, so the others come as integers of the same size.
DTYPES = {
    "f64": ("float64", 2, 64), "f32": ("float32", 2, 32), "f16": ("float16", 2, 16), "bf16": ("bfloat16", 4, 16),
    "i64": ("int64", 0, 64), "i32": ("int32", 0, 32), "i16": ("int16", 0, 16), "i8": ("int8", 0, 8),
    "u64": ("uint64", 0, 64), "u32": ("uint32", 0, 32), "u16": ("uint16", 0, 16), "u8": ("uint8", 1, 8),
    "e4m3": ("float8_e4m3fn", 1, 8), "e5m2": ("float8_e5m2", 1, 8),
}


class Unsupported(Exception):
    pass


class Failed(Exception):
    pass


class Unusable(Exception):
    pass


def answered(function):
    @functools.wraps(function)
    def call(*arguments):
        try:
            return OK, function(*arguments)
        except (Unsupported, NotImplementedError) as error:
            return UNSUPPORTED, str(error) or "the program does not support this workload"
        except Failed as error:
            return FAILED, str(error)
        except Unusable as error:
            return UNUSABLE, str(error)
        except BaseException as error:  # a program may raise SystemExit
            lines = traceback.extract_tb(error.__traceback__)
            place = next((l for l in reversed(lines) if l.filename in own_files), lines[-1] if lines else None)
            where = f"{place.filename}:{place.lineno}: " if place else ""
            return FAILED, where + "".join(traceback.format_exception_only(type(error), error)).strip()

    return call


own_files = set()
torch = None


def start(texts):
    """Imports PyTorch, once in a process."""
    global torch
    if torch is not None:
        return
    sys.stdout = sys.stderr
    sys.argv = [texts["python"]]
    if texts["cache"]:  # compiled kernels are kept for the next worker
        for variable, folder in (("TORCHINDUCTOR_CACHE_DIR", "inductor"), ("TRITON_CACHE_DIR", "triton")):
            os.environ.setdefault(variable, os.path.join(texts["cache"], "pytorch", folder))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")  # several workers compile at a time
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads must be asleep after a launch
    try:
        import torch as imported
    except ImportError as error:
        raise Unusable(f"{sys.executable} has no PyTorch ({error}); install it there (pip install torch; Debian: apt-get "
                     "install python3-torch), or name another interpreter (evaluation.python, --python)")
    torch = imported
    torch.set_grad_enabled(False)


class Workload:
    """What a program's prepare() gets: name, task, dtype (of PyTorch), target, device, threads; the dimensions and parameters
    are attributes and entries: workload.R, workload["R"]."""

    def __init__(self, **facts):
        self.__dict__.update(facts)

    def __getattr__(self, name):
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(f"the task has no dimension or parameter {name}") from None

    def __getitem__(self, name):
        return self.values[name]

    def fastest(self, launch, settings):
        """For prepare(): the setting with which launch(*setting) takes least, of five runs; those that fail are left out."""
        best, least, trouble = None, float("inf"), None
        other = torch.empty(256 << 20, dtype=torch.uint8, device=self.device) if self.target == "cuda" else None
        for setting in settings:
            try:
                launch(*setting)  # compiles
                seconds = min(self.seconds(launch, setting, other) for _ in range(5))
            except Exception as error:  # more registers or shared memory than there are
                trouble = error
                continue
            if seconds < least:
                best, least = setting, seconds
        if best is None:
            raise trouble or Failed("no setting to choose from")
        return best

    def seconds(self, launch, setting, other):
        if self.target != "cuda":
            begin = time.perf_counter()
            launch(*setting)
            return time.perf_counter() - begin
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        other.zero_()  # a cold cache, as in a timed run
        torch.cuda._sleep(2_000_000)  # about a millisecond, so that everything is queued before the first kernel starts
        begin.record()
        launch(*setting)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3


def module_of(file):
    """The module of a file, loaded once."""
    file = os.path.abspath(file)
    own_files.add(file)
    name = "cultivar_contender_" + "".join(c if c.isalnum() else "_" for c in file)
    if name not in sys.modules:
        folder = os.path.dirname(file)
        if folder not in sys.path:
            sys.path.append(folder)  # not first: contenders/triton.py must not hide the package that it imports
        spec = importlib.util.spec_from_file_location(name, file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        stem = os.path.splitext(os.path.basename(file))[0]
        package = None if stem in sys.modules else importlib.util.find_spec(stem)
        itself = package is not None and package.origin == file
        if itself:
            sys.modules[stem] = None  # an import of this name means a package that is not installed
        try:
            spec.loader.exec_module(module)
        except ModuleNotFoundError as error:
            del sys.modules[name]
            missing = (error.name or "?").split(".")[0]
            raise Unusable(f"{file} needs the package {missing}, which {sys.executable} does not have; install it there "
                           f"(pip install {missing}), or name another interpreter (evaluation.python, --python)") from None
        except BaseException:
            del sys.modules[name]
            raise
        finally:
            if itself:
                del sys.modules[stem]
    return sys.modules[name]


def computation(workload, inputs, texts):
    """(compute of the task's pytorch.py, its keyword arguments)."""
    file = os.path.join(texts["task_folder"], "pytorch.py")
    if not os.path.isfile(file):
        raise Unusable(f"the task {workload.task} has no {file}; write it: compute(INPUTS..., *, PARAMETERS...) returns the "
                     "outputs (configs/tasks/README.md)")
    compute = getattr(module_of(file), "compute", None)
    if compute is None:
        raise Unusable(f"{file} defines no compute(INPUTS..., *, PARAMETERS...)")
    wanted = inspect.signature(compute).parameters.values()
    keywords = {p.name: workload.values[p.name] for p in wanted
                if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name in workload.values and p.name not in inputs}
    return compute, keywords


def eager(workload, inputs, texts):
    compute, keywords = computation(workload, inputs, texts)
    return lambda tensors: compute(*[tensors[name] for name in inputs], **keywords)


def compiled(workload, inputs, texts):
    if not hasattr(torch, "compile"):
        raise Unusable(f"PyTorch {torch.__version__} has no torch.compile; install 2.0 or later, or name another "
                          "interpreter (evaluation.python, --python)")
    compute, keywords = computation(workload, inputs, texts)
    from torch._dynamo import config  # every workload is a compilation of its own of one function
    for limit in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit", "accumulated_cache_size_limit"):
        if hasattr(config, limit):
            setattr(config, limit, 1 << 20)
    made = torch.compile(compute, dynamic=False, **compiler())
    return lambda tensors: made(*[tensors[name] for name in inputs], **keywords)


MODE = "max-autotune-no-cudagraphs"


def compiler():
    """How torch.compile compiles, as its arguments."""
    beside = beside_others() if card.is_shared() else None
    return {"mode": MODE} if beside is None else {"backend": beside}


@functools.cache
def beside_others():
    """Inductor in that mode; others have the GPU while the host compiles, but not while it times its choices. None: this
    version of PyTorch has other names for what that takes."""
    try:
        inductor = torch._TorchCompileInductorWrapper(MODE, None, False)
        benchmarking = importlib.import_module("torch._inductor.runtime.benchmarking").benchmarker
        selection = importlib.import_module("torch._inductor.select_algorithm").AlgorithmSelectorCache
        uses = [(benchmarking, benchmarking.benchmark_gpu), (selection, selection.autotune)]
    except (ImportError, AttributeError):
        return None
    for owner, function in uses:
        setattr(owner, function.__name__, with_the_card(function))

    def compile_beside_others(graph, inputs):
        with card.given(True):
            return inductor(graph, inputs)

    return compile_beside_others


class Card:
    """The turn at a GPU that other programs share, which this process has at the beginning of a preparation."""

    def __init__(self):
        self.others, self.are_others = None, False

    def is_shared(self):
        return self.others is not None

    def during(self, function, state):
        self.others, self.are_others = None, False
        if function:
            call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)(function)
            self.others = functools.partial(call, state)

    @contextlib.contextmanager
    def given(self, others):
        before = self.are_others
        self.give(others)
        try:
            yield
        finally:
            self.give(before)

    def give(self, others):
        if self.others is None or others == self.are_others:
            return
        if others and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        self.are_others = others
        self.others(int(others))


card = Card()


def with_the_card(function):
    @functools.wraps(function)
    def call(*arguments, **named):
        with card.given(False):
            return function(*arguments, **named)

    return call


BUILT_IN = {"torch": eager, "torch_compile": compiled}
programs = {}  # (program, workload) -> its launch function, of the built-in programs
living = set()


class Prepared:
    def __init__(self, facts, values, tensors, texts, capsules, stream):
        numbers = {}
        for name, value in values:
            kind = texts.get("type of " + name, "i64")
            numbers[name] = bool(value) if kind == "flag" else float(value) if kind[0] in "fb" else int(value)
        self.cuda = stream != 0
        device = "cpu"
        if self.cuda:
            torch.cuda.set_device(facts["ordinal"])
            device = f"cuda:{facts['ordinal']}"
            self.stream = torch.cuda.ExternalStream(stream, device=device)
        else:
            torch.set_num_threads(max(1, facts["threads"]))
        missing = [t for t in {d for _, _, d, _ in tensors} if not hasattr(torch, DTYPES.get(t, (t,))[0])]
        if missing:
            raise Unsupported(f"PyTorch {torch.__version__} has no type for {', '.join(missing)}")
        self.tensors = tensors
        self.types = [getattr(torch, DTYPES[dtype][0]) for _, _, dtype, _ in tensors]
        self.outputs = [i for i, (_, output, _, _) in enumerate(tensors) if output]
        inputs = [name for name, output, _, _ in tensors if not output]
        self.workload = Workload(name=facts["name"], task=texts["task"], dtype=getattr(torch, DTYPES[facts["dtype"]][0]),
                                 target="cuda" if self.cuda else "cpu", device=torch.device(device),
                                 threads=facts["threads"], values=numbers)
        self.returned = None
        views = self.views(capsules)
        with self.on_stream():
            for name in inputs:
                fill(views[name])
            self.run = self.program(texts["program"], views, inputs, texts)
            for _ in range(WARM_UPS):
                self.returned = self.run(views)
                self.results(views)
        if self.cuda:
            torch.cuda.synchronize()
        living.add(id(self))

    def program(self, program, views, inputs, texts):
        if program in BUILT_IN:
            key = (program, texts["task_folder"], self.workload.dtype, self.workload.device,
                   tuple(sorted(self.workload.values.items())))
            if key not in programs:
                if len(programs) >= KEPT_PROGRAMS:
                    programs.pop(next(iter(programs)))
                programs[key] = BUILT_IN[program](self.workload, inputs, texts)
            return programs[key]
        prepare = getattr(module_of(program), "prepare", None)
        if prepare is None:
            raise Unusable(f"{program} defines no prepare(workload, tensors), which returns launch(tensors)")
        launch = prepare(self.workload, views)
        if not callable(launch):
            raise Failed(f"{program}: prepare returned {type(launch).__name__}; it must return launch(tensors)")
        return launch

    def on_stream(self):
        return torch.cuda.stream(self.stream) if self.cuda else Always()

    def views(self, capsules):
        views = {}
        for (name, _, _, _), dtype, capsule in zip(self.tensors, self.types, capsules):
            view = torch.utils.dlpack.from_dlpack(capsule)
            views[name] = view if view.dtype == dtype else view.view(dtype)
        return views

    def launch(self, capsules):
        views = self.views(capsules)
        with self.on_stream():
            self.returned = self.run(views)

    def results(self, views):
        returned, self.returned = self.returned, None
        if returned is None:  # written in place
            return
        if isinstance(returned, torch.Tensor):
            returned = (returned,)
        if len(returned) != len(self.outputs):
            raise Failed(f"the program returned {len(returned)} tensors, but the task has {len(self.outputs)} outputs")
        for i, tensor in zip(self.outputs, returned):
            view = views[self.tensors[i][0]]
            if tensor.shape != view.shape or tensor.dtype != view.dtype:
                raise Failed(f"the program returned {self.tensors[i][0]} as {tensor.dtype} of shape {tuple(tensor.shape)}, but "
                             f"the task has {view.dtype} of shape {tuple(view.shape)}; convert it in the program, "
                             "so that the time includes it")
            view.copy_(tensor)

    def finish(self, capsules):
        if self.returned is None:
            return
        with self.on_stream():
            self.results(self.views(capsules))
        if self.cuda:
            self.stream.synchronize()

    def release(self):
        self.returned = self.run = None
        living.discard(id(self))
        if self.cuda and not living:  # another contender's launch must find its memory in the cache
            torch.cuda.empty_cache()


class Always:
    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


def fill(tensor):
    """Values with which every program can run: zeros are indices of all tables."""
    if tensor.dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        tensor.normal_()
    else:
        tensor.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]).zero_()


@answered
def warm_up(texts):
    """Imports PyTorch: seconds in which a GPU is not needed. The user's own modules may use one when they are imported."""
    start(texts)
    if texts["program"] == "torch_compile" and hasattr(torch, "compile"):
        importlib.import_module("torch._inductor.compile_fx")


@answered
def prepare(facts, values, tensors, texts, capsules, stream, others, state):
    start(texts)
    own_files.add(os.path.abspath(texts["program"]))
    card.during(others, state)
    try:
        return Prepared(facts, values, tensors, texts, capsules, stream)
    finally:
        card.during(0, 0)


@answered
def launch(prepared, capsules):
    prepared.launch(capsules)


@answered
def results(prepared, capsules):
    prepared.finish(capsules)


@answered
def release(prepared):
    prepared.release()


def version():
    return "" if torch is None else f"PyTorch {torch.__version__}, Python {sys.version.split()[0]}"
