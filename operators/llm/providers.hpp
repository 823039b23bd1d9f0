// Every provider by name, as a configuration names it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "evaluators/error.hpp"
#include "operators/llm/chat_model.hpp"
#include "operators/llm/http_client.hpp"
#include "operators/llm/model_config.hpp"
#include "operators/llm/secret.hpp"

namespace cultivar {

struct ProviderFacts {
  const char* name;
  bool over_http;           // takes base_url, api_key_env, extra
  const char* base_url;     // where the provider's own service is; empty: there is none
  const char* api_key_env;  // what its key is usually called
};
const std::vector<ProviderFacts>& known_providers();
const ProviderFacts* provider_named(const std::string&);  // nullptr: unknown

// An Error says what is missing: the key's variable is not set, a recording cannot be read. All models of a
// search share one HTTP client, and so one thread.
Expected<std::unique_ptr<ChatModel>> make_chat_model(const ModelConfig&, std::shared_ptr<HttpClient>,
                                                     const EnvironmentReader&);

}  // namespace cultivar
