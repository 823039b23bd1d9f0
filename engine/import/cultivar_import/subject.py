# SPDX-License-Identifier: Apache-2.0
"""The program of an import: its inputs (arguments, parameters, buffers), how each is filled, and reference.py."""

import importlib.util
import inspect
import keyword
import os
import re
import shutil
import sys
import warnings

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from .observe import Labels, Observer, Values, measured, values_of
from .refusal import Refusal, brief
from .source import EXAMPLES

DTYPES = {torch.float32: None, torch.float64: None, torch.bfloat16: None, torch.float16: None, torch.int64: "i64",
          torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "u8"}
RESERVED = set(
    "dtype element_bytes thread threads ceil_div floor_div round_up floor ceil min max sqrt abs log2 f64 f32 f16 bf16 e4m3 e5m2 "
    "i64 i32 i16 i8 u64 u32 u16 u8 true false num_cores vector_bits smem_max auto bool break case char class const continue "
    "default delete do double else enum extern float for goto if inline int long new operator private public register return "
    "short signed sizeof static struct switch template this typedef union unsigned using virtual void volatile while asm and or "
    "not xor main DTYPE rows args out std".split())
_NORMS = tuple(t for t in (torch.nn.modules.batchnorm._NormBase,) if t)


def identifier(text, taken=()):
    name = re.sub(r"[^A-Za-z0-9_]", "_", str(text)).strip("_") or "v"
    if name[0].isdigit():
        name = "p" + name
    if name in RESERVED or keyword.iskeyword(name):
        name += "_"
    base, k = name, 2
    while name in taken:
        name, k = f"{base}_{k}" if base[-1].isdigit() else f"{base}{k}", k + 1
    return name


class Input:
    def __init__(self, name, shape, dtype, values, origin, path=None, labels=None, fixed=()):
        self.name, self.shape, self.dtype, self.values = name, tuple(int(s) for s in shape), dtype, values
        self.origin, self.path = origin, path  # example, parameter or buffer; the name of the argument, or within the module
        self.labels = labels or [None] * len(self.shape)
        self.fixed = set(fixed)  # axes that are constants, such as those of a convolution's kernel
        self.weight = self.initial = None
        self.bound_of = None  # of whole numbers: (input, axis) whose extent is the bound

    @property
    def floating(self):
        return self.dtype.is_floating_point


class Subject:
    def __init__(self, source, training=None):
        self.source = source
        self.notes = []
        self.constants = []  # buffers that stay what the constructor makes them
        self.meta = True
        self.module = None
        self.module_class = None
        self.training = training
        self.arguments = None  # positional: an Input or a constant
        if source.kind in ("class", "instance", "factory"):
            self._read_module()
        if self.module is None and source.kind == "factory":
            raise Refusal(f"{source.name}() takes no arguments and returns no torch.nn.Module.",
                          "Give the tensors as arguments, or return the module.")
        self._read_examples()
        self._name()

    # Modules

    def _build(self):
        source = self.source
        if source.kind == "instance":
            return source.program
        make = getattr(source.module, "get_init_inputs", None)
        self.has_init = source.kind == "class" and callable(make)
        arguments = list(make()) if self.has_init else []
        return source.program(*arguments)

    def _read_module(self):
        source = self.source
        if source.kind == "class":
            needed = [p.name for p in list(inspect.signature(source.program.__init__).parameters.values())[1:]
                      if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
            if needed and not callable(getattr(source.module, "get_init_inputs", None)):
                raise Refusal(f"{source.name}.__init__ needs {', '.join(needed)}.",
                              f"Add to the file:\n\ndef get_init_inputs():\n    return [...]  # {', '.join(needed)}")
        self.has_init = False
        module = None
        if source.kind != "instance":
            try:
                with FakeTensorMode(allow_non_fake_inputs=True), Observer(), Labels():
                    module = self._build()
                    fake = True
            except Exception:
                module = None
        if module is None:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    module = self._build()
                fake = False
            except Exception as error:
                raise Refusal(f"{source.name} cannot be built: {brief(error)}.",
                              "Correct it, or let get_init_inputs() return other arguments.") from None
        if not isinstance(module, torch.nn.Module):
            if source.kind == "factory":
                return
            raise Refusal(f"{source.name} is no torch.nn.Module.")
        self.module_class = type(module).__name__
        if self.training is None:
            self.training = source.is_kernelbench or source.mentions_mode()
            if self.training and not module.training:
                self.training = False
        if not self.training:
            module.eval()
        self.parameters = []
        owner, weights = {}, {}
        for prefix, child in module.named_modules():
            for key, p in list(child._parameters.items()) + list(child._buffers.items()):
                if p is not None:
                    owner.setdefault(id(p), (child, key))
        for path, p in module.named_parameters():
            child, key = owner[id(p)]
            values = (values_of(p) or Values()) if fake else measured(p)
            if p.dtype not in DTYPES or not p.dtype.is_floating_point:
                raise Refusal(f"The parameter {path} has the dtype {str(p.dtype)[6:]}.", "Only floating point is supported.")
            kernel = isinstance(child, torch.nn.modules.conv._ConvNd) and p.dim() > 2
            labels = getattr(p, "_cultivar_labels", None)
            item = Input(path, p.shape, p.dtype, self._parameter_values(values, child, key), "parameter", path, labels,
                         range(2, p.dim()) if kernel else ())
            item.initial = values
            if key == "weight" and p.dim() > 1:
                weights[id(child)] = item
            item.weight = weights.get(id(child)) if key in ("weight", "bias") else None  # whose fan-in sets the deviation
            self.parameters.append(item)
        self.drops_statistics = False
        for path, b in module.named_buffers():
            child, key = owner[id(b)]
            if isinstance(child, _NORMS) and key in ("running_mean", "running_var", "num_batches_tracked"):
                if child.training:
                    self.drops_statistics = True
                elif key != "num_batches_tracked":
                    values = Values("uniform", 0.5, 1.5) if key == "running_var" else Values("normal", 0.0, 0.25)
                    self.parameters.append(Input(path, b.shape, b.dtype, values, "buffer", path))
                continue
            self.constants.append((path, b.dtype))
        held = [f"{prefix}.{key}".strip(".") for prefix, child in module.named_modules() for key, value in vars(child).items()
                if isinstance(value, torch.Tensor)]
        if held:
            self.notes.append(f"{', '.join(held[:3])}: tensors that are neither parameters nor buffers stay what the constructor "
                              "makes them")
        self.meta = not self.constants and not held and source.kind != "instance" and fake
        self.module = module

    def _parameter_values(self, values, child, key):
        if values.kind == "constant":
            if values.a == 0:
                return Values("normal", 0.0, 0.25)
            return Values("normal", values.a, 0.25 * abs(values.a))
        moments = values.moments()
        if moments and moments[1] > 0:
            return Values("normal", 0.0 if abs(moments[0]) < 0.05 * moments[1] else moments[0], moments[1])
        return Values("normal", 0.0, 0.25, note="initial values that are not known")

    # Examples

    def _callable(self):
        return self.module.forward if self.module is not None else self.source.program

    def _parameters(self):
        try:
            return list(inspect.signature(self._callable()).parameters.values())
        except (TypeError, ValueError):
            return []

    def _argument_names(self, count):
        names, spare = [], None
        try:
            for p in inspect.signature(self._callable()).parameters.values():
                if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                    names.append(p.name)
                elif p.kind == p.VAR_POSITIONAL:
                    spare = p.name
        except (TypeError, ValueError):
            spare = "x"
        while len(names) < count and spare:
            names.append(f"{spare}{len(names)}")
        return names

    def _read_examples(self):
        module = self.source.module
        name, maker = next(((n, getattr(module, n)) for n in EXAMPLES if getattr(module, n, None) is not None), (None, None))
        values = None
        if callable(maker):
            try:
                with FakeTensorMode(allow_non_fake_inputs=True), Observer(), Labels():
                    values = maker()
                    values = [values] if isinstance(values, torch.Tensor) else values
                    self._check_examples(values)
                if any(isinstance(v, torch.Tensor) and (values_of(v) is None or values_of(v).kind == "unknown") and
                       v.numel() <= 1 << 25 for v in values):
                    real = maker()
                    real = [real] if isinstance(real, torch.Tensor) else list(real)
                    for fake, each in zip(values, real):
                        if isinstance(fake, torch.Tensor) and (values_of(fake) is None or values_of(fake).kind == "unknown"):
                            fake._cultivar_values = measured(each)
            except Refusal:
                raise
            except Exception:
                values = None
            if values is None:
                try:
                    values = maker()
                    values = [values] if isinstance(values, torch.Tensor) else values
                except Exception as error:
                    raise Refusal(f"The example inputs cannot be made: {brief(error)}.",
                                  f"{name}() must return a list of tensors without network or a GPU.") from None
                self._check_examples(values)
        elif maker is not None:
            values = [maker] if isinstance(maker, torch.Tensor) else maker
            self._check_examples(values)
        else:
            values = self._defaults()
        keywords = dict(values) if isinstance(values, dict) else None
        values = list(values.values()) if keywords is not None else list(values)
        names = list(keywords) if keywords is not None else self._argument_names(len(values))
        if keywords is not None:
            order = [n for n in self._argument_names(0) if n in keywords]
            if set(order) != set(names):
                raise Refusal(f"The example inputs name {', '.join(n for n in names if n not in order)}, which is no positional argument.",
                              f"The positional arguments are {', '.join(self._argument_names(0))}. Give an argument that is only a "
                              "keyword its value as a default.")
            values, names = [keywords[n] for n in order], order
        if len(names) < len(values):
            raise Refusal(f"There are {len(values)} example inputs, but {self.source.name} takes {len(names)} arguments.",
                          "Return one value for each argument.")
        self.arguments = []
        for name, value in zip(names, values):
            if isinstance(value, torch.Tensor):
                if value.dtype.is_complex or value.dtype not in DTYPES:
                    raise Refusal(f"The input {name} has the dtype {str(value.dtype)[6:]}, which tasks do not have.",
                                  "Pass real and imaginary parts, or another dtype.")
                if value.layout != torch.strided:
                    raise Refusal(f"The input {name} is a sparse tensor.", "Pass its parts as dense tensors.")
                if value.numel() == 0:
                    raise Refusal(f"The example input {name} is empty.", "Give it at least one element.")
                known = values_of(value)
                if known is None or known.kind == "unknown":
                    known = measured(value) if not hasattr(value, "fake_mode") else Values("normal", 0, 1, note="not known")
                self.arguments.append(Input(name, value.shape, value.dtype, known, "example",
                                            labels=getattr(value, "_cultivar_labels", None)))
            else:
                self.arguments.append((name, value))
        for p in self._parameters():  # what the example leaves open has its default, for good
            if p.name not in names and p.default is not p.empty and not isinstance(p.default, torch.Tensor):
                self.notes.append(f"{p.name} is {p.default!r}, its default: another value is another task (name it in the example inputs)")
        for name, value in (a for a in self.arguments if isinstance(a, tuple)):
            self.notes.append(f"{name} is {value!r}, as in the example inputs: another value is another task")
        if not any(isinstance(a, Input) for a in self.arguments):
            raise Refusal("None of the example inputs is a tensor.", "A task needs at least one input tensor.")

    def _check_examples(self, values):
        if not isinstance(values, (list, tuple, dict)):
            raise Refusal(f"The example inputs are a {type(values).__name__}.", "Return a list of tensors and numbers.")
        for value in (values.values() if isinstance(values, dict) else values):
            if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
                raise Refusal("An example input is a list of tensors.", "Pass each tensor as an argument of its own.")
            if not isinstance(value, (torch.Tensor, int, float, bool, str, type(None), list, tuple, torch.dtype)):
                raise Refusal(f"An example input is a {type(value).__name__}.", "Pass tensors and numbers.")

    def _defaults(self):
        parameters = list(inspect.signature(self._callable()).parameters.values())
        if parameters and all(p.default is not p.empty for p in parameters) and any(
                isinstance(p.default, torch.Tensor) for p in parameters):
            return [p.default for p in parameters]
        annotated, numbers = [], self.source.module
        for p in parameters:  # x: "N, C" with N and C at the top of the file
            sizes = re.findall(r"[A-Za-z_]\w*|\d+", p.annotation) if isinstance(p.annotation, str) else []
            sizes = [int(s) if s.isdigit() else getattr(numbers, s, None) for s in sizes]
            if p.default is not p.empty and not sizes:
                continue
            if not sizes or not all(isinstance(s, int) for s in sizes):
                annotated = None
                break
            value = torch.randn([int(s) for s in sizes]) if torch.Size(sizes).numel() < 1 << 27 else None
            if value is None:
                annotated = None
                break
            value._cultivar_values = Values("normal", 0.0, 1.0)
            value._cultivar_labels = [getattr(s, "label", None) for s in sizes]
            annotated.append(value)
        if annotated:
            return annotated
        names = [p.name for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        lines = ", ".join("torch.randn(64, 1024)" for _ in names or ["x"])
        raise Refusal(f"The file has no example inputs for {self.source.name}.",
                      f"Add these lines with your shapes:\n\ndef get_inputs():\n    return [{lines}]  # {', '.join(names) or 'x'}")

    # Names

    def _name(self):
        taken = set()
        self.inputs = []
        for argument in self.arguments:
            if isinstance(argument, Input):
                argument.path = argument.name
                argument.name = identifier(argument.name, taken)
                taken.add(argument.name)
                self.inputs.append(argument)
        for parameter in getattr(self, "parameters", []):
            parameter.name = identifier(parameter.name, taken)
            taken.add(parameter.name)
            self.inputs.append(parameter)

    # Files

    def copy_files(self, folder):
        os.makedirs(folder, exist_ok=True)
        shutil.copyfile(self.source.path, os.path.join(folder, "model.py"))
        for relative, whole in self.source.local_files.items():
            if relative in ("model.py", "reference.py"):
                raise Refusal(f"The file imports a local file {relative}, and the task needs that name.", "Rename it.")
            target = os.path.join(folder, relative)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(whole, target)

    def reference(self, task, flatten=False, without=None, booleans=(), changed=(), added=()):
        """The text of reference.py. `without`: {name of an input on which no output depends: the
        texts of its sizes}; such an input is no argument. `changed`: inputs that the program changes, `added` those of them that it
        does not return."""
        without = without or {}
        source = self.source
        lines = [f'"""{source.name} of model.py as the reference of the task {task}.', "",
                 "compute(INPUTS...) takes the inputs in the order of task.yaml and returns the outputs in its order.", '"""', "",
                 "import importlib.util", "import os", "import sys", "", "import torch", ""]
        lines += ["_folder = os.path.dirname(os.path.abspath(__file__))"]
        if source.local_files:
            lines += ["sys.path.insert(0, _folder)  # model.py imports files beside it"]
        lines += [f'_spec = importlib.util.spec_from_file_location("cultivar_model_{task}", os.path.join(_folder, "model.py"))',
                  "_model = importlib.util.module_from_spec(_spec)", "sys.modules[_spec.name] = _model",
                  "_spec.loader.exec_module(_model)", ""]
        if self.module is not None:
            make = f"_model.{source.name}" if source.kind == "instance" else (
                f"_model.{source.name}(*_model.get_init_inputs())" if self.has_init else f"_model.{source.name}()")
            if self.meta:
                lines += ['with torch.device("meta"):  # its parameters are inputs of compute, so it needs no memory',
                          f"    _module = {make}"]
            elif source.kind == "instance":
                lines += [f"_module = {make}"]
            else:
                lines += ["with torch.random.fork_rng(devices=[]):", "    torch.manual_seed(0)", f"    _module = {make}"]
            lines += ["_module.requires_grad_(False)"]
            if not self.meta and source.kind != "instance":
                lines += ["for _parameter in _module.parameters():  # they are inputs of compute", "    _parameter.data = torch.empty(0)"]
            if not self.training:
                lines += ["_module.eval()"]
            if self.drops_statistics:
                lines += ["for _part in _module.modules():  # in training, running statistics do not reach the output",
                          "    if hasattr(_part, \"track_running_stats\"):", "        _part.track_running_stats = False"]
            if self.constants:
                lines += ["_constants = {name: value for name, value in _module.named_buffers()",
                          f"              if name in {tuple(path for path, _ in self.constants)!r}}}"]
            lines += [""]
        lines += [""]
        names = [i.name for i in self.inputs if i.name not in without]
        header = f"def compute({', '.join(names)}):"
        if len(header) > 120:
            header = "def compute(\n    " + ",\n    ".join(names) + "):"
        lines += [header]
        for gone in without:
            like = next(i.name for i in self.inputs if i.name in names and i.floating)
            lines += [f"    {gone} = {like}.new_ones([{', '.join(without[gone])}])  # no output depends on it"]

        for name in changed:
            lines += [f"    {name} = {name}.clone()  # the program changes it"]

        def use(i):
            return f"{i.name} != 0" if i.dtype == torch.bool else i.name

        call = ", ".join(use(a) if isinstance(a, Input) else repr(_plain(a[1])) for a in self.arguments)
        one = f"({call},)"
        if self.module is None:
            lines += [f"    result = _model.{source.name}({call})"]
        else:
            parameters = [i for i in self.inputs if i.origin != "example"]
            if parameters or self.constants:
                lines += ["    values = {"] + [f'        "{p.path}": {p.name},' for p in parameters] + ["    }"]
                like = next(i.name for i in self.inputs if i.name not in without)
                floating = next((i.name for i in self.inputs if i.floating and i.name not in without), None)
                if self.constants:
                    lines += ["    for name, value in _constants.items():",
                              f"        values[name] = value.to({like}.device)"]
                    if floating:
                        lines[-1] = (f"        values[name] = value.to({floating}) if value.is_floating_point() else "
                                     f"value.to({like}.device)")
                lines += [f"    result = torch.func.functional_call(_module, values, {one})"]
            else:
                lines += [f"    result = _module({call})"]
        if flatten or added:
            flatten = True
            lines += ["    parts = [p for p in torch.utils._pytree.tree_leaves(result) if isinstance(p, torch.Tensor)]"]
            result = "parts"
        else:
            result = "result"
        if booleans:
            if not flatten:
                lines += ["    parts = list(result) if isinstance(result, (tuple, list)) else [result]"]
            for k in booleans:
                lines += [f"    parts[{k}] = parts[{k}].to(torch.uint8)"]
            result = "parts"
        if added:
            lines += [f"    parts += [{', '.join(added)}]"]
        lines += [f"    return {'tuple(parts)' if result == 'parts' else result}"]
        if lines[-2].startswith("    result = ") and lines[-1] == "    return result":
            lines[-2:] = ["    return " + lines[-2][len("    result = "):]]
        return "\n".join(lines) + "\n"


def _plain(value):
    if isinstance(value, bool) or value is None or isinstance(value, (str, torch.dtype)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(v) for v in value)
    return value


_loaded = 0


def load_reference(folder):
    """compute of the folder's reference.py, in a module of its own, without what earlier loads left."""
    global _loaded
    _loaded += 1
    for key, module in list(sys.modules.items()):  # what it imports from its folder is loaded anew as well
        if (getattr(module, "__file__", None) or "").startswith(os.path.abspath(folder) + os.sep):
            del sys.modules[key]
    path = os.path.join(folder, "reference.py")
    spec = importlib.util.spec_from_file_location(f"cultivar_reference_{_loaded}", path)
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec.loader.exec_module(module)
    return module.compute
