// How much chance is in a ratio of two RMS errors where few elements decide, by the schemes of rounding.cpp, which is included:
// one large value in V (decode, four heads that share its key head), and rising stairs with equal queries (D 64, four key heads).
//   g++ -std=c++20 -O3 -march=native -I evaluators/references experiments/attention_h200/few_elements.cpp -o few_elements
//   ./few_elements [DRAWS]
#define main rounding_main
#include "rounding.cpp"
#undef main

namespace {

void print(const char* name, std::vector<double> ratios, double all) {
  std::sort(ratios.begin(), ratios.end());
  const auto at = [&](double share) { return ratios[static_cast<std::size_t>(share * static_cast<double>(ratios.size() - 1))]; };
  const auto above = std::count_if(ratios.begin(), ratios.end(), [](double r) { return r > 1.78; });
  std::printf("%s: all draws together %.3f; each: least %.2f, 5 %% %.2f, median %.2f, 95 %% %.2f, most %.2f, above 1.78 in %.1f %%\n", name, all,
              ratios.front(), at(0.05), at(0.5), at(0.95), ratios.back(), 100.0 * static_cast<double>(above) / static_cast<double>(ratios.size()));
}

// The error of 100 * weight / sum: the weight is rounded relative to a maximum `base`, the result once more.
double error_of(double weight, double share, double base) {
  const double relative = std::exp2(weight - base);
  return round_bf16(static_cast<float>(round_bf16(static_cast<float>(relative)) / relative * 100.0 * share)) - 100.0 * share;
}

// FlashAttention-3's maximum when it comes to the value (tiles of 128, the last first), and that of one of two warps that take
// tiles of 16 keys of a split of 512 in turn (cuda_split).
void one_value(int draws, std::mt19937_64& stream) {
  constexpr int keys = 4097, heads = 4;
  std::normal_distribution<double> normal;
  std::vector<double> ratios;
  Error all[2];
  for (int draw = 0; draw < draws; ++draw) {
    Error errors[2];
    const int j = static_cast<int>(stream() % keys);
    for (int head = 0; head < heads; ++head) {
      std::vector<double> logit(keys);  // in powers of two
      double sum = 0;
      for (double& x : logit) x = normal(stream) * 1.442695040888963, sum += std::exp2(x);
      double tops[2] = {-1e300, -1e300};
      for (int i = 0; i < keys; ++i) {
        if (i >= j / 128 * 128) tops[0] = std::max(tops[0], logit[i]);
        if (i / 512 == j / 512 && i / 16 <= j / 16 && i / 16 % 2 == j / 16 % 2) tops[1] = std::max(tops[1], logit[i]);
      }
      for (int which = 0; which < 2; ++which) {
        const double error = error_of(logit[j], std::exp2(logit[j]) / sum, tops[which]);
        errors[which].add(error), all[which].add(error);
      }
    }
    ratios.push_back(errors[1].rms() / errors[0].rms());
  }
  print("one value of 100 in zeros, splits / FlashAttention-3", ratios, all[1].rms() / all[0].rms());
}

void stairs(int draws, std::mt19937_64& stream) {
  const std::vector<Scheme> schemes = {
      running("FA3", 128, true),
      late("d64.cu", {.n = 96, .remedy = Remedy::new_base, .part = 1, .apart = false, .heavy = 4}),
      late("d64.cu, HEAVY=32", {.n = 96, .remedy = Remedy::new_base, .part = 1, .apart = false, .heavy = 32}),
  };
  std::vector<std::vector<double>> ratios(schemes.size());
  std::vector<Error> all(schemes.size());
  for (int draw_number = 0; draw_number < draws; ++draw_number) {
    std::vector<Error> errors(schemes.size());
    for (int head = 0; head < 4; ++head) {
      Head h(128, 2048, 64, false);
      draw("stairs", h, stream);
      const Exact e = exact_rows(h, 0, 1, false);  // all queries are equal
      const std::vector<Row32> s(16, logits(h, 0));
      Out out(128 * h.D);
      Treated ignored;
      for (std::size_t c = 0; c < schemes.size(); ++c) {
        schemes[c].run(h, s, 0, out, ignored);
        add_errors(errors[c], out, e.exact, h, 0, 1);
        add_errors(all[c], out, e.exact, h, 0, 1);
      }
    }
    for (std::size_t c = 0; c < schemes.size(); ++c) ratios[c].push_back(errors[c].rms() / errors[0].rms());
  }
  for (std::size_t c = 1; c < schemes.size(); ++c)
    print(("rising stairs, " + schemes[c].name + " / FlashAttention-3").c_str(), ratios[c], all[c].rms() / all[0].rms());
}

}  // namespace

int main(int count, char** args) {
  const int draws = count > 1 ? std::atoi(args[1]) : 400;
  std::mt19937_64 stream(5);
  one_value(draws, stream);
  stairs(draws, stream);
}
