// Stands in for the AWS provider, which no package registry has: the schema of the real one, and no AWS behind it.
//
// Terraform itself then validates and plans deploy/terraform, and keeps what it would have made in its state, from
// which the tests make it in a simulated AWS. What the real provider checks beyond its schema is not checked here.
//
// The schema is the file named by NODEMEND_PROVIDER_SCHEMA, as `terraform providers schema -json` writes it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Of moto.
const account = "123456789012"

type attribute struct {
	Type     json.RawMessage
	Required bool
	Optional bool
	Computed bool
}

type block struct {
	Attributes map[string]attribute
	BlockTypes map[string]nested `json:"block_types"`
}

type nested struct {
	NestingMode string `json:"nesting_mode"`
	Block       block
	MinItems    int64 `json:"min_items"`
	MaxItems    int64 `json:"max_items"`
}

var nestings = map[string]tfprotov6.SchemaNestedBlockNestingMode{
	"list":   tfprotov6.SchemaNestedBlockNestingModeList,
	"set":    tfprotov6.SchemaNestedBlockNestingModeSet,
	"single": tfprotov6.SchemaNestedBlockNestingModeSingle,
}

func (b block) schema() (*tfprotov6.SchemaBlock, error) {
	found := &tfprotov6.SchemaBlock{}
	for name, a := range b.Attributes {
		kind, err := tftypes.ParseJSONType(a.Type) //nolint:staticcheck // the only reader of these words
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		found.Attributes = append(found.Attributes, &tfprotov6.SchemaAttribute{
			Name: name, Type: kind, Required: a.Required, Optional: a.Optional, Computed: a.Computed,
		})
	}
	for name, n := range b.BlockTypes {
		inner, err := n.Block.schema()
		if err != nil {
			return nil, fmt.Errorf("%s.%w", name, err)
		}
		found.BlockTypes = append(found.BlockTypes, &tfprotov6.SchemaNestedBlock{
			TypeName: name, Block: inner, Nesting: nestings[n.NestingMode], MinItems: n.MinItems, MaxItems: n.MaxItems,
		})
	}
	return found, nil
}

// The interface that it embeds is nil: what Terraform asks beyond these methods would end the program.
type server struct {
	tfprotov6.ProviderServer
	resources map[string]*tfprotov6.Schema
}

func (s server) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	return &tfprotov6.GetProviderSchemaResponse{
		Provider:        &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{}},
		ResourceSchemas: s.resources,
	}, nil
}

func (s server) GetMetadata(context.Context, *tfprotov6.GetMetadataRequest) (*tfprotov6.GetMetadataResponse, error) {
	return &tfprotov6.GetMetadataResponse{}, nil
}

func (s server) GetFunctions(context.Context, *tfprotov6.GetFunctionsRequest) (*tfprotov6.GetFunctionsResponse, error) {
	return &tfprotov6.GetFunctionsResponse{}, nil
}

func (s server) ValidateProviderConfig(_ context.Context, r *tfprotov6.ValidateProviderConfigRequest) (*tfprotov6.ValidateProviderConfigResponse, error) {
	return &tfprotov6.ValidateProviderConfigResponse{PreparedConfig: r.Config}, nil
}

func (s server) ConfigureProvider(context.Context, *tfprotov6.ConfigureProviderRequest) (*tfprotov6.ConfigureProviderResponse, error) {
	return &tfprotov6.ConfigureProviderResponse{}, nil
}

func (s server) StopProvider(context.Context, *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse, error) {
	return &tfprotov6.StopProviderResponse{}, nil
}

func (s server) ValidateResourceConfig(context.Context, *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	return &tfprotov6.ValidateResourceConfigResponse{}, nil
}

func (s server) UpgradeResourceState(_ context.Context, r *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	kind := s.resources[r.TypeName].ValueType()
	state, err := r.RawState.Unmarshal(kind)
	if err != nil {
		return nil, err
	}
	upgraded, err := tfprotov6.NewDynamicValue(kind, state)
	return &tfprotov6.UpgradeResourceStateResponse{UpgradedState: &upgraded}, err
}

func (s server) ReadResource(_ context.Context, r *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
	return &tfprotov6.ReadResourceResponse{NewState: r.CurrentState, Private: r.Private}, nil
}

// What AWS chooses is unknown until it is made.
func (s server) PlanResourceChange(_ context.Context, r *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	prior, err := r.PriorState.Unmarshal(s.resources[r.TypeName].ValueType())
	if err != nil {
		return nil, err
	}
	planned, err := s.filled(r.TypeName, r.ProposedNewState, func(a *tfprotov6.SchemaAttribute, _ map[string]tftypes.Value, now tftypes.Value) tftypes.Value {
		if a.Computed && now.IsNull() && prior.IsNull() {
			return tftypes.NewValue(a.Type, tftypes.UnknownValue)
		}
		return now
	})
	return &tfprotov6.PlanResourceChangeResponse{PlannedState: planned, PlannedPrivate: r.PriorPrivate}, err
}

func (s server) ApplyResourceChange(_ context.Context, r *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	made, err := s.filled(r.TypeName, r.PlannedState, func(a *tfprotov6.SchemaAttribute, all map[string]tftypes.Value, now tftypes.Value) tftypes.Value {
		switch {
		case now.IsKnown():
			return now
		case a.Type.Is(tftypes.String):
			return tftypes.NewValue(a.Type, chosen(r.TypeName, a.Name, all))
		default:
			return tftypes.NewValue(a.Type, nil)
		}
	})
	return &tfprotov6.ApplyResourceChangeResponse{NewState: made, Private: r.PlannedPrivate}, err
}

// The state with each attribute of its outermost block as given; nothing for a resource that goes.
func (s server) filled(
	typeName string,
	state *tfprotov6.DynamicValue,
	value func(*tfprotov6.SchemaAttribute, map[string]tftypes.Value, tftypes.Value) tftypes.Value,
) (*tfprotov6.DynamicValue, error) {
	schema := s.resources[typeName]
	kind := schema.ValueType()
	given, err := state.Unmarshal(kind)
	if err != nil || given.IsNull() {
		return state, err
	}
	values := map[string]tftypes.Value{}
	if err := given.As(&values); err != nil {
		return nil, err
	}
	before := map[string]tftypes.Value{}
	for name, one := range values {
		before[name] = one
	}
	for _, a := range schema.Block.Attributes {
		values[a.Name] = value(a, before, values[a.Name])
	}
	after, err := tfprotov6.NewDynamicValue(kind, tftypes.NewValue(kind, values))
	return &after, err
}

// What AWS would choose, where the module refers to it (AWS, ARNs of each service; SQS, queue URL).
func chosen(typeName, attribute string, all map[string]tftypes.Value) string {
	name := ""
	for _, one := range []string{"name", "bucket"} {
		if v, ok := all[one]; ok && v.IsKnown() && !v.IsNull() {
			_ = v.As(&name)
		}
	}
	services := map[string]string{
		"aws_sqs_queue":             "arn:aws:sqs:us-west-2:" + account + ":" + name,
		"aws_sns_topic":             "arn:aws:sns:us-west-2:" + account + ":" + name,
		"aws_cloudwatch_event_rule": "arn:aws:events:us-west-2:" + account + ":rule/" + name,
		"aws_iam_role":              "arn:aws:iam::" + account + ":role/" + name,
	}
	url := "https://sqs.us-west-2.amazonaws.com/" + account + "/" + name
	switch {
	case attribute == "arn" && services[typeName] != "":
		return services[typeName]
	case typeName == "aws_sqs_queue" && (attribute == "id" || attribute == "url"):
		return url
	case attribute == "id" && name != "":
		return name
	default:
		return "chosen-by-aws"
	}
}

func load(path string) (map[string]*tfprotov6.Schema, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		ResourceSchemas map[string]struct{ Block block } `json:"resource_schemas"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	resources := map[string]*tfprotov6.Schema{}
	for name, one := range file.ResourceSchemas {
		found, err := one.Block.schema()
		if err != nil {
			return nil, fmt.Errorf("%s.%w", name, err)
		}
		resources[name] = &tfprotov6.Schema{Block: found}
	}
	return resources, nil
}

func main() {
	resources, err := load(os.Getenv("NODEMEND_PROVIDER_SCHEMA"))
	if err == nil {
		err = tf6server.Serve("hashicorp/aws", func() tfprotov6.ProviderServer { return server{resources: resources} })
	}
	if err != nil {
		log.Fatal(err)
	}
}
