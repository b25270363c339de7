"""Do the official Python clients of OpenAI and Anthropic work unchanged against this server?

Called with the server's address and the model's name. Each call is one that their documentation shows; a difference
ends in an exception, and so in an exit code that is not 0.
"""

import json
import sys

import anthropic
import openai

URL, MODEL = sys.argv[1:]
QUESTION = "What is the weather in Paris? Call the tool get_weather, and say nothing else."
DESCRIPTION = "Tells the weather in a city."
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "get_weather", "description": DESCRIPTION, "parameters": SCHEMA}
SHORT = "Say the word hello and nothing else."

# No retries: what fails shall be seen.
gpt = openai.OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0, timeout=300)
claude = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0, timeout=300)


def check_call(name, arguments):
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    assert name == "get_weather" and "paris" in arguments["city"].lower(), (name, arguments)


def check_text(text):
    assert "hello" in text.lower(), text


def chat():
    asked = {"model": MODEL, "temperature": 0, "max_tokens": 60}
    said = gpt.chat.completions.create(messages=[{"role": "user", "content": SHORT}], **asked)
    check_text(said.choices[0].message.content)
    assert said.usage.total_tokens == said.usage.prompt_tokens + said.usage.completion_tokens, said.usage

    # The streaming helper takes no tool without `strict`.
    tool = {"type": "function", "function": {"strict": True, **FUNCTION}}
    with_tool = {"messages": [{"role": "user", "content": QUESTION}], "tools": [tool]}
    called = gpt.chat.completions.create(**with_tool, **asked)
    assert called.choices[0].finish_reason == "tool_calls", called
    function = called.choices[0].message.tool_calls[0].function
    check_call(function.name, function.arguments)

    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(gpt.chat.completions.create(messages=[{"role": "user", "content": SHORT}], **asked, **options))
    check_text("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices))
    assert chunks[-1].usage.completion_tokens > 0, chunks[-1]
    with gpt.chat.completions.stream(**with_tool, **asked) as stream:
        message = stream.get_final_completion().choices[0].message
    check_call(message.tool_calls[0].function.name, message.tool_calls[0].function.arguments)


def completions():
    filled = gpt.completions.create(
        model=MODEL, prompt="def add(a, b):\n    return ", suffix="\n\nprint(add(1, 2))\n", max_tokens=8, temperature=0
    )
    assert "a + b" in filled.choices[0].text, filled
    chunks = list(gpt.completions.create(model=MODEL, prompt="1, 2, 3, 4,", max_tokens=4, temperature=0, stream=True))
    assert "5" in "".join(chunk.choices[0].text for chunk in chunks), chunks


def responses():
    asked = {"model": MODEL, "temperature": 0, "max_output_tokens": 60}
    said = gpt.responses.create(input=SHORT, **asked)
    check_text(said.output_text)
    assert said.status == "completed" and said.usage.output_tokens > 0 and said.usage.input_tokens_details.cached_tokens >= 0

    tool = {"type": "function", "strict": False, **FUNCTION}
    called = gpt.responses.create(input=QUESTION, tools=[tool], **asked)
    call = next(item for item in called.output if item.type == "function_call")
    check_call(call.name, call.arguments)
    # The conversation goes back whole, as its items came; what a small model makes of it is its own affair.
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "It rains in Paris."}
    items = [{"role": "user", "content": QUESTION}, *called.output, output]
    again = gpt.responses.create(input=items, tools=[tool], **asked)
    assert again.usage.input_tokens_details.cached_tokens > 100, again.usage

    with gpt.responses.stream(input=SHORT, **asked) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        final = stream.get_final_response()
    check_text(text)
    assert final.output_text == text, (final.output_text, text)
    with gpt.responses.stream(input=QUESTION, tools=[tool], **asked) as stream:
        events = list(stream)
        final = stream.get_final_response()
    call = next(item for item in final.output if item.type == "function_call")
    check_call(call.name, call.arguments)
    done = next(event for event in events if event.type == "response.function_call_arguments.done")
    assert done.arguments == call.arguments, done

    for refused in [{"previous_response_id": "resp_1"}, {"store": True}]:
        try:
            gpt.responses.create(input=SHORT, **refused, **asked)
        except openai.BadRequestError as error:
            assert error.param == next(iter(refused)), error
        else:
            raise AssertionError(f"{refused} was not refused")


def messages():
    # The newest clients have no parameter for the temperature, and older ones send it the same way.
    asked = {"model": MODEL, "extra_body": {"temperature": 0}, "max_tokens": 60}
    question = [{"role": "user", "content": QUESTION}]
    said = claude.messages.create(messages=[{"role": "user", "content": SHORT}], system="You are polite.", **asked)
    check_text(said.content[0].text)
    assert said.stop_reason == "end_turn", said
    usage = said.usage
    input_tokens = usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens
    system = [{"type": "text", "text": "You are polite.", "cache_control": {"type": "ephemeral"}}]
    counted = claude.messages.count_tokens(model=MODEL, messages=[{"role": "user", "content": SHORT}], system=system)
    assert counted.input_tokens == input_tokens, (counted, usage)

    tool = {"name": "get_weather", "description": DESCRIPTION, "input_schema": SCHEMA}
    called = claude.messages.create(messages=question, tools=[tool], **asked)
    assert called.stop_reason == "tool_use", called
    call = next(block for block in called.content if block.type == "tool_use")
    check_call(call.name, call.input)
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "It rains in Paris."}]}
    turns = [*question, {"role": "assistant", "content": called.content}, {"role": "user", "content": [result]}]
    again = claude.messages.create(messages=turns, tools=[tool], **asked)
    assert again.usage.cache_read_input_tokens > 100, again.usage

    with claude.messages.stream(messages=[{"role": "user", "content": SHORT}], **asked) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    check_text(text)
    assert final.content[0].text == text and final.usage.output_tokens > 0, final
    with claude.messages.stream(messages=question, tools=[tool], **asked) as stream:
        final = stream.get_final_message()
    call = next(block for block in final.content if block.type == "tool_use")
    check_call(call.name, call.input)
    assert final.stop_reason == "tool_use", final

    stopped = claude.messages.create(messages=[{"role": "user", "content": "Count: 1, 2, 3, 4, 5, 6."}], stop_sequences=["3"], **asked)
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "3"), stopped
    try:
        claude.messages.create(**{**asked, "model": "another"}, messages=question)
    except anthropic.NotFoundError as error:
        assert error.body["error"]["type"] == "not_found_error", error.body
    else:
        raise AssertionError("another model was not refused")


for part in [chat, completions, responses, messages]:
    part()
    print(part.__name__, "works", flush=True)
