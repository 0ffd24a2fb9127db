package openapi

// unified describes the API that clients use.
func unified() []Operation {
	const tag = "Unified API"
	file := Schema{"type": "string", "format": "binary"}
	form := "multipart/form-data"
	return []Operation{
		{
			Route: "POST /v1/chat/completions", Aliases: []string{"POST /chat/completions"}, Tag: tag,
			Summary: "Chat; with stream true the reply is text/event-stream", Body: chatRequest(), Reply: chatReply(),
		},
		{
			Route: "POST /v1/embeddings", Aliases: []string{"POST /embeddings"}, Tag: tag, Summary: "Embeddings",
			Body: object(map[string]Schema{
				"model": text(), "input": anything(), "encoding_format": oneOf("float", "base64"), "dimensions": integer(), "user": text(),
			}, "model", "input"),
			Reply: object(map[string]Schema{"object": text(), "data": arrayOf(anything()), "model": text(), "usage": ref("Usage")}),
		},
		{
			Route: "POST /v1/rerank", Aliases: []string{"POST /v2/rerank", "POST /rerank", "POST /v1/reranking"}, Tag: tag,
			Summary: "Rank documents by how well they answer a query",
			Body: object(map[string]Schema{
				"model": text(), "query": text(), "documents": arrayOf(anything()), "top_n": integer(), "return_documents": boolean(),
			}, "model", "query", "documents"),
			Reply: object(map[string]Schema{"id": text(), "results": arrayOf(anything()), "model": text(), "usage": ref("Usage")}),
		},
		{
			Route: "POST /v1/audio/speech", Aliases: []string{"POST /audio/speech"}, Tag: tag, Summary: "Speech from text",
			Body: object(map[string]Schema{
				"model": text(), "input": text(), "voice": text(), "response_format": text(), "speed": between(0.25, 4),
			}, "model", "input", "voice"),
			ReplyType: "audio/mpeg", Reply: file,
		},
		{
			Route: "POST /v1/audio/transcriptions", Aliases: []string{"POST /audio/transcriptions"}, Tag: tag, Summary: "Text from speech",
			BodyType: form, Body: object(map[string]Schema{
				"file": file, "model": text(), "language": text(), "response_format": text(), "temperature": number(),
			}, "file", "model"),
			Reply: object(map[string]Schema{"text": text()}, "text"),
		},
		{
			Route: "POST /v1/images/generations", Aliases: []string{"POST /images/generations"}, Tag: tag, Summary: "Images from text",
			Body: object(map[string]Schema{
				"model": text(), "prompt": text(), "n": integer(), "size": text(), "quality": text(),
				"response_format": oneOf("url", "b64_json"), "style": oneOf("vivid", "natural"), "user": text(),
			}, "model", "prompt"),
			Reply: images(),
		},
		{
			Route: "POST /v1/images/edits", Aliases: []string{"POST /images/edits"}, Tag: tag, Summary: "Images from images",
			BodyType: form, Body: object(map[string]Schema{
				"image": file, "mask": file, "prompt": text(), "model": text(), "n": integer(), "size": text(),
				"response_format": oneOf("url", "b64_json"), "user": text(),
			}, "image", "prompt", "model"),
			Reply: images(),
		},
		{
			Route: "GET /v1/models", Aliases: []string{"GET /models"}, Tag: tag, Summary: "Every model of every service type, once",
			Reply: object(map[string]Schema{"object": text(), "data": arrayOf(model())}),
		},
		{
			Route: "GET /v1/models/{id...}", Aliases: []string{"GET /models/{id...}"}, Tag: tag, Summary: "One model", Reply: model(),
		},
	}
}

func chatRequest() Schema {
	return object(map[string]Schema{
		"model": text(),
		"messages": arrayOf(object(map[string]Schema{
			"role": oneOf("system", "user", "assistant", "developer", "tool", "function"), "content": anything(), "name": text(),
		}, "role")),
		"stream": boolean(), "max_tokens": integer(), "temperature": between(0, 2), "top_p": between(0, 1), "top_k": integer(),
		"frequency_penalty": between(-2, 2), "presence_penalty": between(-2, 2), "stop": anything(), "user": text(),
		"extra_body": {"type": "object", "description": "Members join the body that goes to the backend."},
	}, "model", "messages")
}

func chatReply() Schema {
	return object(map[string]Schema{
		"id": text(), "object": text(), "created": integer(), "model": text(), "usage": ref("Usage"), "system_fingerprint": text(),
		"choices": arrayOf(object(map[string]Schema{
			"index": integer(), "finish_reason": text(),
			"message": object(map[string]Schema{"role": text(), "content": text()}),
		})),
	})
}

func images() Schema {
	return object(map[string]Schema{
		"created": integer(),
		"data":    arrayOf(object(map[string]Schema{"url": text(), "b64_json": text(), "revised_prompt": text()})),
	})
}

func model() Schema {
	return object(map[string]Schema{"id": text(), "object": text(), "created": integer(), "owned_by": text()})
}
