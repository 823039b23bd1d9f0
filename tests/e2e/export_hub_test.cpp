// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 60 s, engine/export
// An export as a repository that Hugging Face's package `kernels` loads: as functions, as a layer, and with a
// sentence where it cannot be used. Skipped where the package is not installed (tests/install_pytorch.sh).
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "support/contains.hpp"
#include "support/own_bundle.hpp"
#include "support/own_task.hpp"
#include "support/pytorch.hpp"

namespace fs = std::filesystem;
namespace utf = boost::unit_test;
using namespace cultivar::testing;

namespace {

boost::test_tools::assertion_result kernels_are_here(utf::test_unit_id) {
  boost::test_tools::assertion_result here(
      !python_with_torch_2().empty() &&
      run_command({python_with_torch_2(), "-c", "import kernels"}).exit == 0);
  here.message()
      << "the Python packages torch 2 and kernels are not installed for tests (tests/install_pytorch.sh)";
  return here;
}

constexpr const char* kUses = R"(
import pathlib, sys
import torch, kernels
folder = pathlib.Path(sys.argv[1])
kernel = kernels.get_local_kernel(folder)
x = torch.randn(37, 300)
expected = x / torch.sqrt((x * x).mean(1, keepdim=True) + 1e-5)
assert torch.allclose(kernel.rms_norm(x), expected, atol=1e-5)
assert "built in" in kernel.explain(x), kernel.explain(x)
loaded = kernels.get_loaded_kernels()[0].metadata
print(loaded.id, loaded.name, loaded.license)

@kernels.use_kernel_forward_from_hub("Norm")
class Norm(torch.nn.Module):
    def forward(self, x, *, eps=None):
        return -x
model = torch.nn.Sequential(Norm())
assert torch.equal(model(x), -x)
repository = kernels.LocalLayerRepository(folder, layer_name="RmsNorm")
with kernels.use_kernel_mapping({"Norm": {"cpu": {kernels.Mode.INFERENCE: repository}}}):
    kernels.kernelize(model, mode=kernels.Mode.INFERENCE, device="cpu", use_fallback=False)
assert torch.allclose(model(x), expected, atol=1e-5)

# The digests are of the files that were written.
from kernels._rust import Digest, DigestAlgorithm, Metadata
variant = folder / "build" / "torch-universal"
Metadata.read_from_file(variant / "metadata.json").digest.validate(Digest.hash_variant(DigestAlgorithm.SHA256, variant))
print("right")
)";

}  // namespace

BOOST_AUTO_TEST_SUITE(export_hub, *utf::precondition(kernels_are_here))

BOOST_AUTO_TEST_CASE(an_export_is_loaded_by_the_package_kernels) {
  TemporaryFolder folder;
  write_own_task_for(folder.path(), "      - {R: 64, C: 300}\n");
  export_own_kernel(folder.path(), read_text(folder / "rms_norm/seeds/plain.cpp"));
  const auto shell = [&](const std::string& line) {
    return run_command({"sh", "-c", line}, {.folder = folder.path(), .environment = {}, .deadline_s = 300.0});
  };
  const std::string python = python_with_torch_2();
  const auto early = shell(python + " bundle/pytorch/hub.py");
  BOOST_TEST(early.exit == 1);
  BOOST_TEST(contains(early.err, "build the export first"), early.err);
  const auto built = shell("cmake -S bundle -B bundle/build && cmake --build bundle/build");
  BOOST_TEST_INFO(built.out + built.err);
  BOOST_TEST_REQUIRE(built.exit == 0);
  const auto help = shell(python + " bundle/pytorch/hub.py --help");
  BOOST_TEST(help.exit == 0, help.err);
  BOOST_TEST(contains(help.out, "FOLDER"), help.out);
  BOOST_TEST(!fs::exists(folder / "--help"));
  const auto written = shell(python + " bundle/pytorch/hub.py hub");
  BOOST_TEST(written.exit == 0, written.err);
  for (const char* file : {"README.md", "build/torch-universal/__init__.py",
                           "build/torch-universal/metadata.json", "build/torch-universal/layers.py",
                           "build/torch-universal/cultivar_rms_norm.py", "build/torch-universal/verify"})
    BOOST_TEST(fs::exists(folder / "hub" / file), file);
  // Alone: what the repository needs is in it.
  BOOST_TEST(shell("rm -r bundle/build").exit == 0);
  write_text(folder / "uses.py", kUses);
  const auto used = shell("HF_HUB_OFFLINE=1 HF_HOME=$PWD/home " + python + " -B uses.py hub");
  BOOST_TEST(used.exit == 0, used.out + used.err);
  BOOST_TEST(contains(used.out, " cultivar-rms-norm "), used.out);
  BOOST_TEST(contains(used.out, "\nright\n"), used.out);

  const std::string init = read_text(folder / "hub/build/torch-universal/__init__.py");
  const std::string here = "(\"Linux\", \"";
  std::string elsewhere = init;
  BOOST_TEST_REQUIRE(contains(init, here));
  elsewhere.replace(elsewhere.find(here), here.size(), "(\"Plan9\", \"");
  write_text(folder / "hub/build/torch-universal/__init__.py", elsewhere);
  const auto refused = shell("HF_HUB_OFFLINE=1 HF_HOME=$PWD/home " + python + " -B uses.py hub");
  BOOST_TEST(refused.exit == 1);
  BOOST_TEST(contains(refused.err, "ImportError: rms_norm: built for"), refused.err);
}

BOOST_AUTO_TEST_SUITE_END()
