// SPDX-License-Identifier: Apache-2.0
// Every provider by its name in a configuration.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "evaluators/system/error.hpp"
#include "operators/llm/chat_model.hpp"
#include "operators/llm/http_client.hpp"
#include "operators/llm/secret.hpp"

namespace cultivar {

struct ProviderFacts {
  const char* name;
  bool over_http;           // accepts base_url, api_key_env, extra
  const char* base_url;     // the provider's own service; empty if there is none
  const char* api_key_env;  // the usual environment variable for its key
};
const std::vector<ProviderFacts>& known_providers();
const ProviderFacts* provider_named(const std::string&);  // nullptr: unknown

// An Error when the key's variable is not set or a recording cannot be read. All models of a search share one
// HTTP client, and therefore one thread.
Expected<std::unique_ptr<ChatModel>> make_chat_model(const ModelConfig&, std::shared_ptr<HttpClient>,
                                                     const EnvironmentReader&);

}  // namespace cultivar
